"""POST /v1/chat/completions: parses a request and renders its answer."""

from collections.abc import Sequence
from typing import Any

from runtime.core.errors import InvalidRequest
from runtime.core.naming import token_name
from runtime.core.work import Sampled
from runtime.server.completions import generation
from runtime.server.ports import Tokenizer
from runtime.server.request import GenerationParams
from runtime.server.response_writer import Json
from runtime.server.schema import ChatRequest


def params(request: ChatRequest, tokenizer: Tokenizer) -> GenerationParams:
    """The parameters of the request. Raises InvalidRequest."""
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise InvalidRequest("give max_tokens or max_completion_tokens, not both", "max_tokens")
    if request.top_logprobs is not None and not request.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs: true", "top_logprobs")
    return generation(
        request,
        tokenizer,
        prompt=tokenizer.chat([message.plain() for message in request.messages]),
        param="messages",
        max_tokens=request.max_completion_tokens or request.max_tokens,
        logprobs=(request.top_logprobs or 0) if request.logprobs else None,
        role_first=True,
    )


class ChatRendering:
    """Renders an answer as `chat.completion`, or as chunks `chat.completion.chunk` with deltas."""

    def __init__(
        self, answer_id: str, created: int, model: str, params: GenerationParams, tokenizer: Tokenizer
    ) -> None:
        self._base = {"id": f"chatcmpl-{answer_id}", "created": created, "model": model}
        self._params = params
        self._tokenizer = tokenizer

    def opening(self) -> Json:
        """A chunk with the role, before all others."""
        return self._chunk({"role": "assistant", "content": ""}, (), None)

    def piece(self, text: str, sampled: Sequence[Sampled]) -> Json:
        """A chunk with text."""
        return self._chunk({"content": text}, sampled, None)

    def closing(self, finish: str) -> Json:
        """A chunk without text, with the finish reason."""
        return self._chunk({}, (), finish)

    def counts(self, usage: Json) -> Json:
        """A chunk without choices, with the token counts."""
        return {**self._base, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def whole(self, text: str, sampled: Sequence[Sampled], finish: str, usage: Json) -> Json:
        """The answer in one piece."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = self._choice("message", message, sampled, finish)
        return {**self._base, "object": "chat.completion", "choices": [choice], "usage": usage}

    def _chunk(self, delta: dict[str, str], sampled: Sequence[Sampled], finish: str | None) -> Json:
        # With include_usage every chunk has the key; it is null in all but the last.
        usage = {"usage": None} if self._params.include_usage else {}
        choice = self._choice("delta", delta, sampled, finish)
        return {**self._base, "object": "chat.completion.chunk", "choices": [choice], **usage}

    def _choice(self, part: str, said: object, sampled: Sequence[Sampled], finish: str | None) -> dict[str, Any]:
        logprobs = None
        if self._params.logprobs is not None and sampled:
            logprobs = {"content": [self._entry(each) for each in sampled], "refusal": None}
        choice: dict[str, Any] = {"index": 0, part: said, "logprobs": logprobs, "finish_reason": finish}
        if self._params.token_ids:
            choice["token_ids"] = [each.token for each in sampled]
        return choice

    def _entry(self, sampled: Sampled) -> dict[str, Any]:
        top = [self._token(token, logprob) for token, logprob in sampled.top]
        return {**self._token(sampled.token, sampled.logprob), "top_logprobs": top}

    def _token(self, token: int, logprob: float | None) -> dict[str, Any]:
        name = token_name(self._tokenizer.decode, token)
        return {
            "token": name,
            "logprob": logprob,
            "bytes": None if name.startswith("token_id:") else list(name.encode()),
        }
