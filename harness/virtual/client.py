"""The client of one request in virtual time: it records everything that it receives, and hangs up as planned.

sent --- head --- first --- ... last --- end
  |        |         |
queued  prefill   token N        stages at which a planned cancel closes the connection, see harness.load.cancel
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.load.cancel import CancelAt, parse_cancel
from harness.load.itl import GapHistogram
from harness.load.outcome import HUNG_UP, ClientEnd, Outcome, decide
from harness.virtual.client_requests import ClientRequest
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

Row = tuple[int | float | str | None, ...]


@dataclass(slots=True, eq=False)
class Client:
    """One exchange, from sending to its outcome. Times are in ns of virtual time; None until the event happens."""

    request: ClientRequest
    intended_ns: int
    sent_ns: int
    gaps: GapHistogram
    cancel: CancelAt | None = field(init=False)
    head_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    end_ns: int | None = None
    cancel_ns: int | None = None
    outcome: Outcome | None = None
    http: int | None = None
    finish: str | None = None
    error: str | None = None
    retry_after_s: float | None = None
    prompt_tokens: int | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    """One for each of `tokens` when the request asks for them; else empty."""
    chunks: int = 0
    """Number of events with tokens."""
    gap_sum: int = 0
    gap_max: int | None = None

    def __post_init__(self) -> None:
        self.cancel = parse_cancel(self.request.cancel_at)

    def receive(self, now_ns: int, event: Event) -> bool:
        """Record one event of the server. Returns True when the client hangs up after it, as planned."""
        match event:
            case Tokens(_, sampled):
                return self._receive_tokens(now_ns, sampled)
            case Head():
                self.head_ns, self.http = now_ns, 200
                return self.cancel is not None and self.cancel.due("prefill")
            case Finished(reason):
                self.finish = reason
            case Counts(ended):
                self.prompt_tokens = ended.tokens_in
            case Done():
                self.end(now_ns, ClientEnd.DONE)
            case WholeAnswer(_, sampled, reason, ended):
                # The times of its first and last token are unknown to the client.
                self._keep(sampled)
                self.head_ns, self.http, self.chunks = now_ns, 200, int(bool(self.tokens))
                self.finish, self.prompt_tokens = reason, ended.tokens_in
                self.end(now_ns, ClientEnd.DONE)
            case Refusal(problem):
                self.head_ns, self.http, self.retry_after_s = now_ns, problem.http, problem.retry_after_s
                self.end(now_ns, ClientEnd.DONE, error=f"{problem.code}: {problem.message}")
            case InBandError(problem):
                error = problem.body["error"]
                words = tuple(str(word) for key in ("code", "type") if (word := error[key]))
                self.end(now_ns, ClientEnd.DONE, words, f"{problem.code}: {problem.message}")
            case Cut():
                self.end(now_ns, ClientEnd.CUT, error="ChunkedEncodingError")
        return False

    def receive_many(self, stamps_ns: Sequence[int], sampled: Sequence[Sampled], longest_ns: int) -> int:
        """Record one event for each token, at the times `stamps_ns`.

        None of them is the first event of the answer or the one at which the client hangs up. `longest_ns` is the
        longest gap between two stamps. Returns the gap before the first stamp; the caller counts it in the histogram,
        and the gaps between the stamps.
        """
        assert self.last_ns is not None, "the first event of an answer is received alone"
        self._keep(sampled)
        self.chunks += len(sampled)
        gap_ns = stamps_ns[0] - self.last_ns
        self.gap_sum += stamps_ns[-1] - self.last_ns
        self.gap_max = max(gap_ns, longest_ns, self.gap_max or 0)
        self.last_ns = stamps_ns[-1]
        return gap_ns

    def end(self, now_ns: int, end: ClientEnd, error_words: tuple[str, ...] = (), error: str | None = None) -> None:
        """Record the end of the exchange and its outcome. It asserts that the exchange ends once."""
        assert self.outcome is None, f"{self.request.id} ends again, by {end}"
        self.end_ns = now_ns
        self.error = error if error is not None else self.error
        if end in HUNG_UP:
            self.cancel_ns = now_ns
        self.outcome = decide(end, self.http, self.finish, error_words)

    def reply_row(self) -> Row:
        """The row of table reply."""
        assert self.outcome is not None
        bad = self.outcome not in (Outcome.OK, Outcome.CANCELLED)
        counted = len(self.tokens) or (0 if self.outcome is Outcome.OK else None)
        return (
            self.request.id,
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
            # The tokens of the hash model are bytes of the text.
            hashlib.blake2b(bytes(self.tokens), digest_size=16).hexdigest() if self.tokens else None,
            None,
        )

    def _receive_tokens(self, now_ns: int, sampled: Sequence[Sampled]) -> bool:
        self._keep(sampled)
        self.chunks += 1
        if self.last_ns is None:
            self.first_ns = now_ns
        else:
            gap_ns = now_ns - self.last_ns
            self.gap_sum += gap_ns
            if self.gap_max is None or gap_ns > self.gap_max:
                self.gap_max = gap_ns
            self.gaps.add(self.request.load, gap_ns)
        self.last_ns = now_ns
        return self.cancel is not None and self.cancel.due("token", self.chunks)

    def _keep(self, sampled: Sequence[Sampled]) -> None:
        """Append tokens to the answer."""
        if len(sampled) == 1:
            self.tokens.append(sampled[0].token)
        else:
            self.tokens += [each.token for each in sampled]
        if self.request.logprobs is not None:
            self.logprobs += [each.logprob for each in sampled]


def request_row(request: ClientRequest, intended_ns: int, sent_ns: int | None) -> Row:
    """The row of table request. `sent_ns` is None for an arrival that was dropped."""
    return (
        request.id,
        request.load,
        request.kind,
        request.group,
        "0",
        request.plan_row,
        request.prompt_sha,
        len(request.prompt),
        request.output_tokens,
        intended_ns,
        sent_ns,
        request.cancel_at,
    )
