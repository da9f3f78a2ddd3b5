"""POST /v1/chat/completions: parses a request and renders its answer."""

from collections.abc import Sequence
from typing import Any

from runtime.core.errors import InvalidRequest
from runtime.core.naming import token_name
from runtime.core.work import Sampled
from runtime.server.completions import generation
from runtime.server.ports import Tokenizer
from runtime.server.rendering import Json, Rendering
from runtime.server.request import GenerationParams
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


class ChatRendering(Rendering):
    """Renders an answer as `chat.completion`, or as chunks `chat.completion.chunk` with deltas."""

    id_prefix, whole_object, chunk_object = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def _delta(self, text: str | None, *, opening: bool = False) -> Json:
        role = {"role": "assistant"} if opening else {}
        return {"delta": role if text is None else {**role, "content": text}}

    def _message(self, text: str) -> Json:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def _logprobs(self, sampled: Sequence[Sampled]) -> Json:
        content = [
            {**self._token(each.token, each.logprob), "top_logprobs": [self._token(*one) for one in each.top]}
            for each in sampled
        ]
        return {"content": content, "refusal": None}

    def _token(self, token: int, logprob: float | None) -> dict[str, Any]:
        name = token_name(self._tokenizer.decode, token)
        return {
            "token": name,
            "logprob": logprob,
            "bytes": None if name.startswith("token_id:") else list(name.encode()),
        }
