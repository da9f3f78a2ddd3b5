"""Builds requests from planned rows: body, headers, and the `request` line of the spool."""

import json
from dataclasses import dataclass

from faults.spec import LOAD_HEADER
from harness.load.cancel import parse_cancel
from harness.load.config import LoadConfig
from harness.load.connection import bearer
from harness.load.exchange import HttpRequest
from harness.load.malformed import malformed_body
from harness.load.prompt import canary_text, prompt_text, text_digest
from scenarios.arrivals import PlannedRequest
from scenarios.load import Load

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


@dataclass(frozen=True)
class PreparedRequest:
    """A request ready to send. `line` is its spool line without the times, which are known when it is sent."""

    request: HttpRequest
    line: dict[str, object]
    load_id: str
    kind: str  # load | probe | canary | malformed


class RequestBuilder:
    """Builds the requests of one config. A missing API key raises LookupError when the builder is made."""

    def __init__(self, config: LoadConfig) -> None:
        self._config = config
        self._headers = {"Content-Type": "application/json", **bearer(config.key_env)}

    def load_request(self, load: Load, ask: PlannedRequest) -> PreparedRequest:
        """Build the request of a planned row."""
        text = prompt_text(ask.parts)
        if ask.malformed:
            kind, (text, body) = "malformed", malformed_body(ask.n, self._config.model, self._config.api)
        else:
            kind = "probe" if load.probe else "load"
            fields: dict[str, object] = {"seed": ask.prompt_seed & 0x7FFFFFFF, "stream": ask.stream}
            if load.priority:
                fields["priority"] = -load.priority  # vLLM's: lower is earlier
            if ask.stream:
                fields["stream_options"] = {"include_usage": True}
            body = self._body(text, ask.output_tokens, fields)
        sizes = ask.prompt_tokens, ask.output_tokens
        return self._prepared(load.id, kind, load.group, ask.n, text, body, load.timeout, sizes, ask.cancel_at)

    def canary_request(self, number: int) -> PreparedRequest:
        """Build the nth canary: fixed prompts in turn, greedy, with log probabilities where they are asked for."""
        canary = self._config.canary
        assert canary is not None
        index = number % canary.prompts
        text = canary_text(self._config.seed, index, canary.prompt_tokens)
        fields: dict[str, object] = {"seed": 0, "stream": True, "stream_options": {"include_usage": True}}
        if canary.logprobs and self._config.api == "chat":
            fields |= {"logprobs": True, "top_logprobs": canary.logprobs}
        elif canary.logprobs:
            fields["logprobs"] = canary.logprobs
        body, sizes = self._body(text, canary.output_tokens, fields), (canary.prompt_tokens, canary.output_tokens)
        return self._prepared("canary", "canary", canary.group, number, text, body, canary.timeout_s, sizes)

    def _body(self, text: str, output_tokens: int, fields: dict[str, object]) -> bytes:
        # Temperature 0: a bystander's tokens are compared with those of its twin in a run without faults.
        body: dict[str, object] = {"model": self._config.model, "max_tokens": output_tokens, "temperature": 0, **fields}
        body |= {"messages": [{"role": "user", "content": text}]} if self._config.api == "chat" else {"prompt": text}
        body = {name: value for name, value in body.items() if name not in self._config.leave_out}
        return json.dumps({**body, **self._config.body}, separators=(",", ":")).encode()

    def _prepared(
        self,
        load_id: str,
        kind: str,
        group: str,
        number: int,
        text: str,
        body: bytes,
        timeout_s: float,
        sizes: tuple[int, int],
        cancel_at: str | None = None,
    ) -> PreparedRequest:
        """`sizes` are the tokens of the prompt and the largest number of tokens of the reply."""
        prefix = f"{self._config.run_id}-" if self._config.run_id else ""
        identity = f"{prefix}{load_id}-{number}"
        line: dict[str, object] = {
            "e": "request",
            "id": identity,
            "load": load_id,
            "kind": kind,
            "grp": group,
            "plan_row": number,
            "prompt_sha": text_digest(text),
            "prompt_tokens": sizes[0],
            "output_tokens_max": sizes[1],
            "cancel_at": cancel_at,
        }
        headers = {**self._headers, "X-Request-Id": identity, LOAD_HEADER: load_id}
        url, done = self._config.url + PATHS[self._config.api], self._config.wants_done
        request = HttpRequest(identity, url, body, headers, timeout_s, parse_cancel(cancel_at), done)
        return PreparedRequest(request, line, load_id, kind)
