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
        config, api = self._config, self._config.api
        text = prompt_text(ask.parts)
        if ask.malformed:
            kind, (form, body) = "malformed", malformed_body(ask.n, config.model, api)
            text = form
        else:
            kind = "probe" if load.probe else "load"
            fields: dict[str, object] = {"seed": ask.prompt_seed & 0x7FFFFFFF, "stream": ask.stream}
            if load.priority:
                fields["priority"] = -load.priority  # vLLM's: lower is earlier
            if ask.stream:
                fields["stream_options"] = {"include_usage": True}
            body = self._body(api, text, ask.output_tokens, fields)
        return self._prepared(load.id, kind, load.group, ask.n, text, body, api, load.timeout, ask)

    def canary_request(self, number: int) -> PreparedRequest:
        """Build the nth canary: fixed prompts in turn, greedy, with log probabilities where they are asked for."""
        canary, api = self._config.canary, self._config.api
        assert canary is not None
        index = number % canary.prompts
        text = canary_text(self._config.seed, index, canary.prompt_tokens)
        fields: dict[str, object] = {"seed": 0, "stream": True, "stream_options": {"include_usage": True}}
        if canary.logprobs and api == "chat":
            fields |= {"logprobs": True, "top_logprobs": canary.logprobs}
        elif canary.logprobs:
            fields["logprobs"] = canary.logprobs
        body = self._body(api, text, canary.output_tokens, fields)
        line: dict[str, object] = {"prompt_tokens": canary.prompt_tokens, "output_tokens_max": canary.output_tokens}
        return self._prepared("canary", "canary", canary.group, number, text, body, api, canary.timeout_s, None, line)

    def _body(self, api: str, text: str, output_tokens: int, fields: dict[str, object]) -> bytes:
        # Temperature 0: a bystander's tokens are compared with those of its twin in a run without faults.
        body: dict[str, object] = {"model": self._config.model, "max_tokens": output_tokens, "temperature": 0, **fields}
        body |= {"messages": [{"role": "user", "content": text}]} if api == "chat" else {"prompt": text}
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
        api: str,
        timeout_s: float,
        ask: PlannedRequest | None,
        sizes: dict[str, object] | None = None,
    ) -> PreparedRequest:
        prefix = f"{self._config.run_id}-" if self._config.run_id else ""
        identity = f"{prefix}{load_id}-{number}"
        cancel_at = ask.cancel_at if ask is not None else None
        if ask is not None:
            sizes = {"prompt_tokens": ask.prompt_tokens, "output_tokens_max": ask.output_tokens}
        line: dict[str, object] = {
            "e": "request",
            "id": identity,
            "load": load_id,
            "kind": kind,
            "grp": group,
            "plan_row": number,
            "prompt_sha": text_digest(text),
            **(sizes or {}),
            "cancel_at": cancel_at,
        }
        headers = {**self._headers, "X-Request-Id": identity, LOAD_HEADER: load_id}
        url, done = self._config.url + PATHS[api], self._config.wants_done
        request = HttpRequest(identity, url, body, headers, timeout_s, parse_cancel(cancel_at), done)
        return PreparedRequest(request, line, load_id, kind)
