"""POST /v1/completions: parses a request and renders its answer."""

from collections.abc import Sequence
from typing import Any

from runtime.core.errors import InvalidRequest
from runtime.core.naming import token_name
from runtime.core.work import Sampled
from runtime.server.ports import Tokenizer
from runtime.server.request import GenerationParams
from runtime.server.response_writer import Json
from runtime.server.schema import CompletionRequest, Generation

_MAX_TOKENS = 16  # OpenAI's default


def params(request: CompletionRequest, tokenizer: Tokenizer) -> GenerationParams:
    """The parameters of the request. Raises InvalidRequest."""
    return generation(
        request,
        tokenizer,
        prompt=_prompt(request.prompt, tokenizer),
        param="prompt",
        max_tokens=request.max_tokens or _MAX_TOKENS,
        logprobs=request.logprobs,
    )


def generation(
    request: Generation,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    param: str,
    max_tokens: int | None,
    logprobs: int | None,
    role_first: bool = False,
) -> GenerationParams:
    """The parameters of a request, from the fields that both endpoints share and from the arguments."""
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    stop_tokens = frozenset() if request.ignore_eos else tokenizer.stop_tokens
    return GenerationParams(
        prompt=prompt,
        param=param,
        max_tokens=max_tokens,
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        seed=request.seed,
        logprobs=logprobs,
        stops=tuple(stops),
        stop_tokens=stop_tokens | frozenset(request.stop_token_ids or ()),
        stream=request.stream,
        include_usage=request.stream_options is not None and request.stream_options.include_usage,
        token_ids=request.return_token_ids,
        priority=-request.priority,
        role_first=role_first,
    )


def _prompt(prompt: str | list[int] | list[str] | list[list[int]], tokenizer: Tokenizer) -> list[int]:
    """Token ids of one prompt, given as text or ids, by itself or as the only element of a list. Raises
    InvalidRequest."""
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        if len(prompt) > 1:
            raise InvalidRequest(
                f"{len(prompt)} prompts were given; send one request for each", "prompt", "batch_prompt"
            )
        prompt = prompt[0]
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    tokens = [token for token in prompt if isinstance(token, int)]
    if tokens and max(tokens) >= tokenizer.vocab_size:
        text = f"token {max(tokens)} is not below {tokenizer.vocab_size}, the vocabulary's size"
        raise InvalidRequest(text, "prompt")
    return tokens


class CompletionRendering:
    """Renders an answer as `text_completion`, in one piece or as chunks of that shape."""

    def __init__(
        self, answer_id: str, created: int, model: str, params: GenerationParams, tokenizer: Tokenizer
    ) -> None:
        self._base = {"id": f"cmpl-{answer_id}", "object": "text_completion", "created": created, "model": model}
        self._params = params
        self._tokenizer = tokenizer
        self._offset = 0

    def opening(self) -> Json:
        """An empty chunk; no request of this endpoint has `role_first`."""
        return self.piece("", ())

    def piece(self, text: str, sampled: Sequence[Sampled]) -> Json:
        """A chunk with text."""
        return self._chunk([self._choice(text, sampled, None)])

    def closing(self, finish: str) -> Json:
        """A chunk without text, with the finish reason."""
        return self._chunk([self._choice("", (), finish)])

    def counts(self, usage: Json) -> Json:
        """A chunk without choices, with the token counts."""
        return {**self._base, "choices": [], "usage": usage}

    def whole(self, text: str, sampled: Sequence[Sampled], finish: str, usage: Json) -> Json:
        """The answer in one piece."""
        return {**self._base, "choices": [self._choice(text, sampled, finish)], "usage": usage}

    def _chunk(self, choices: list[dict[str, Any]]) -> Json:
        # With include_usage every chunk has the key; it is null in all but the last.
        usage = {"usage": None} if self._params.include_usage else {}
        return {**self._base, "choices": choices, **usage}

    def _choice(self, text: str, sampled: Sequence[Sampled], finish: str | None) -> dict[str, Any]:
        logprobs = self._logprobs(sampled) if self._params.logprobs is not None and sampled else None
        choice: dict[str, Any] = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish}
        if self._params.token_ids:
            choice["token_ids"] = [each.token for each in sampled]
        return choice

    def _logprobs(self, sampled: Sequence[Sampled]) -> dict[str, list[Any]]:
        """Four parallel lists, one entry for each token."""
        decode, offsets = self._tokenizer.decode, []
        for each in sampled:
            offsets.append(self._offset)
            self._offset += len(decode([each.token]))
        return {
            "tokens": [token_name(decode, each.token) for each in sampled],
            "token_logprobs": [each.logprob for each in sampled],
            "top_logprobs": [{token_name(decode, token): logprob for token, logprob in each.top} for each in sampled],
            "text_offset": offsets,
        }
