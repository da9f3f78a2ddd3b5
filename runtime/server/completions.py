"""POST /v1/completions: parses a request and renders its answer."""

from collections.abc import Sequence

from runtime.core.errors import InvalidRequest
from runtime.core.naming import token_name
from runtime.core.work import Sampled
from runtime.server.ports import Tokenizer
from runtime.server.rendering import Json, Rendering
from runtime.server.request import GenerationParams
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


class CompletionRendering(Rendering):
    """Renders an answer as `text_completion`, in one piece or as chunks of that shape."""

    id_prefix, whole_object, chunk_object = "cmpl", "text_completion", "text_completion"
    _offset = 0

    def _delta(self, text: str | None, *, opening: bool = False) -> Json:
        return {"text": text or ""}

    def _message(self, text: str) -> Json:
        return {"text": text}

    def _logprobs(self, sampled: Sequence[Sampled]) -> Json:
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
