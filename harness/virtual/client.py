"""One client of a virtual server: everything that it sees of its request, and when it hangs up.

sent --- head --- first --- ... last --- end
  |        |         |
queued  prefill   token N        where a planned cancel closes the connection, as in harness.load.exchange
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.load.cancel import CancelAt
from harness.load.outcome import ClientEnd, ClientObservation, Outcome, decide
from runtime.core.work import Sampled
from runtime.server.events import (
    Counts,
    Cut,
    Done,
    Event,
    Finished,
    Head,
    InBandError,
    Refusal,
    Tokens,
    WholeAnswer,
)

Gap = Callable[[int], None]


@dataclass(slots=True)
class Asked:
    """A request as its client sends it; not frozen, which would triple what it costs to make one."""

    id: str
    load: str
    kind: str
    """load | probe | canary | malformed"""
    group: str
    plan_row: int
    prompt: tuple[int, ...]
    prompt_sha: str
    output_tokens: int
    stream: bool
    timeout_s: float
    cancel: CancelAt | None
    cancel_at: str | None
    priority: int = 0
    logprobs: int | None = None


class Client:
    """One exchange, from sending to its one outcome."""

    __slots__ = (
        "_gap",
        "asked",
        "cancel_ns",
        "chunks",
        "code",
        "end_ns",
        "error",
        "finish",
        "first_ns",
        "gap_max",
        "gap_sum",
        "head_ns",
        "http",
        "intended_ns",
        "last_ns",
        "logprobs",
        "outcome",
        "prompt_tokens",
        "retry_after_s",
        "sent_ns",
        "tokens",
    )

    def __init__(self, asked: Asked, intended_ns: int, sent_ns: int, gap: Gap) -> None:
        self.asked = asked
        self.intended_ns = intended_ns
        self.sent_ns = sent_ns
        self.head_ns: int | None = None
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.end_ns: int | None = None
        self.cancel_ns: int | None = None
        self.outcome: Outcome | None = None
        self.http: int | None = None
        self.finish: str | None = None
        self.error: str | None = None
        self.retry_after_s: float | None = None
        self.prompt_tokens: int | None = None
        self.tokens: list[int] = []
        self.logprobs: list[float | None] = []
        """As long as `tokens` when they were asked for."""
        self.chunks = 0
        self.gap_sum = 0
        self.gap_max: int | None = None
        self._gap = gap

    def take(self, now_ns: int, event: Event) -> bool:
        """One event of the server. True: the client hangs up after it, as planned."""
        match event:
            case Tokens(_, sampled):
                return self._chunk(now_ns, sampled)
            case Head():
                return self.head(now_ns)
            case Finished(reason):
                self.finish = reason
            case Counts(ended):
                self.prompt_tokens = ended.tokens_in
            case Done():
                self.over(now_ns, ClientEnd.DONE)
            case WholeAnswer(_, sampled, reason, ended):
                # Its first and last token were not seen.
                self._keep(sampled)
                self.head_ns, self.http, self.chunks = now_ns, 200, int(bool(self.tokens))
                self.finish, self.prompt_tokens = reason, ended.tokens_in
                self.over(now_ns, ClientEnd.DONE)
            case Refusal(problem):
                self.head_ns, self.http, self.retry_after_s = now_ns, problem.http, problem.retry_after_s
                self.over(now_ns, ClientEnd.DONE, error=f"{problem.code}: {problem.message}")
            case InBandError(problem):
                error = problem.body["error"]
                words = tuple(str(word) for key in ("code", "type") if (word := error[key]))
                self.over(now_ns, ClientEnd.DONE, words, f"{problem.code}: {problem.message}")
            case Cut():
                self.over(now_ns, ClientEnd.CUT, error="ChunkedEncodingError")
        return False

    def head(self, now_ns: int) -> bool:
        """The head of a stream. True: the client hangs up here, as planned."""
        self.head_ns, self.http = now_ns, 200
        cancel = self.asked.cancel
        return cancel is not None and cancel.after_head()

    def _chunk(self, now_ns: int, sampled: Sequence[Sampled]) -> bool:
        """One event with text. True: the client hangs up after it, as planned."""
        self._keep(sampled)
        self.chunks += 1
        if self.last_ns is None:
            self.first_ns = now_ns
        else:
            gap_ns = now_ns - self.last_ns
            self.gap_sum += gap_ns
            if self.gap_max is None or gap_ns > self.gap_max:
                self.gap_max = gap_ns
            self._gap(gap_ns)
        self.last_ns = now_ns
        cancel = self.asked.cancel
        return cancel is not None and cancel.after_chunk(self.chunks)

    def chunks_of(self, stamps_ns: Sequence[int], sampled: Sequence[Sampled], longest_ns: int) -> int:
        """An event for each token, one at each of `stamps_ns`, none of them the first of the answer or the one at which
        the client hangs up. `longest_ns` is the longest gap between two stamps. Returns the gap before the first one;
        it and those between the stamps are for the caller to count."""
        assert self.last_ns is not None, "the first event of an answer comes by itself"
        self._keep(sampled)
        self.chunks += len(sampled)
        gap_ns = stamps_ns[0] - self.last_ns
        self.gap_sum += stamps_ns[-1] - self.last_ns
        self.gap_max = max(gap_ns, longest_ns, self.gap_max or 0)
        self.last_ns = stamps_ns[-1]
        return gap_ns

    def _keep(self, sampled: Sequence[Sampled]) -> None:
        """Tokens of the answer."""
        if len(sampled) == 1:
            self.tokens.append(sampled[0].token)
        else:
            self.tokens += [each.token for each in sampled]
        if self.asked.logprobs is not None:
            self.logprobs += [each.logprob for each in sampled]

    def over(self, now_ns: int, end: ClientEnd, words: tuple[str, ...] = (), error: str | None = None) -> None:
        """The one end; a second one is our own mistake."""
        assert self.outcome is None, f"{self.asked.id} ends again, by {end}"
        self.end_ns = now_ns
        self.error = error if error is not None else self.error
        if end is ClientEnd.CANCELLED:
            self.cancel_ns = now_ns
        self.outcome = decide(ClientObservation(end, self.http, self.finish, words))

    def request_row(self) -> tuple[int | str | None, ...]:
        """Its row of table request."""
        return request_row(self.asked, self.intended_ns, self.sent_ns)

    def reply_row(self) -> tuple[int | float | str | None, ...]:
        """Its row of table reply."""
        assert self.outcome is not None
        bad = self.outcome not in (Outcome.OK, Outcome.CANCELLED)
        counted = len(self.tokens) or (0 if self.outcome is Outcome.OK else None)
        return (
            self.asked.id,
            self.head_ns,
            self.first_ns,
            self.last_ns,
            self.end_ns,
            self.cancel_ns,
            self.outcome.value,
            self.http,
            self.finish,
            self.error if bad else None,
            self.retry_after_s,
            self.prompt_tokens,
            counted,
            None if counted is None else "ids",
            self.chunks,
            self.gap_sum if self.chunks > 1 else None,
            self.gap_max,
            text_sha(self.tokens),
            None,
        )


def request_row(asked: Asked, intended_ns: int, sent_ns: int | None) -> tuple[int | str | None, ...]:
    """A row of table request; `sent_ns` None for an arrival that was dropped."""
    return (
        asked.id,
        asked.load,
        asked.kind,
        asked.group,
        "0",
        asked.plan_row,
        asked.prompt_sha,
        len(asked.prompt),
        asked.output_tokens,
        intended_ns,
        sent_ns,
        asked.cancel_at,
    )


def text_sha(tokens: Sequence[int]) -> str | None:
    """Digest of a reply's text: its tokens are characters."""
    return hashlib.blake2b(bytes(tokens), digest_size=16).hexdigest() if tokens else None
