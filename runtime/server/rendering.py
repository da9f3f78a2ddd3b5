"""JSON objects of an answer, in one piece or as chunks of a stream. A subclass for each endpoint knows its shapes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.core.messages import Ended
from runtime.core.work import Sampled
from runtime.server.ports import Tokenizer
from runtime.server.request import GenerationParams

Json = Mapping[str, Any]


class Rendering(ABC):
    """Renders one answer."""

    id_prefix: str
    whole_object: str
    chunk_object: str

    def __init__(
        self, answer_id: str, created: int, model: str, params: GenerationParams, tokenizer: Tokenizer
    ) -> None:
        self._base = {"id": f"{self.id_prefix}-{answer_id}", "created": created, "model": model}
        self._params = params
        self._tokenizer = tokenizer

    def opening(self) -> Json:
        """The chunk before the first token, for requests with `role_first`."""
        return self._chunk(self._delta("", opening=True), (), None)

    def piece(self, text: str, sampled: Sequence[Sampled]) -> Json:
        """A chunk for some tokens; `text` is the text that they complete, "" when they complete none yet."""
        return self._chunk(self._delta(text), sampled, None)

    def closing(self, finish: str) -> Json:
        """A chunk without text, with the finish reason."""
        return self._chunk(self._delta(None), (), finish)

    def counts(self, ended: Ended) -> Json:
        """The chunk of `include_usage`, with the token counts and without choices."""
        return {**self._base, "object": self.chunk_object, "choices": [], "usage": _usage(ended)}

    def whole(self, text: str, sampled: Sequence[Sampled], finish: str, ended: Ended) -> Json:
        """The answer in one piece."""
        choice = self._choice(self._message(text), sampled, finish)
        return {**self._base, "object": self.whole_object, "choices": [choice], "usage": _usage(ended)}

    @abstractmethod
    def _delta(self, text: str | None, *, opening: bool = False) -> Json:
        """The part of a choice that holds the text of a chunk; None in the last one."""
        ...

    @abstractmethod
    def _message(self, text: str) -> Json:
        """The part of a choice that holds the whole text."""
        ...

    @abstractmethod
    def _logprobs(self, sampled: Sequence[Sampled]) -> Json:
        """The `logprobs` of a choice."""
        ...

    def _chunk(self, part: Json, sampled: Sequence[Sampled], finish: str | None) -> Json:
        # With include_usage every chunk has the key; it is null in all but the last.
        usage = {"usage": None} if self._params.include_usage else {}
        choice = self._choice(part, sampled, finish)
        return {**self._base, "object": self.chunk_object, "choices": [choice], **usage}

    def _choice(self, part: Json, sampled: Sequence[Sampled], finish: str | None) -> Json:
        logprobs = self._logprobs(sampled) if self._params.logprobs is not None and sampled else None
        choice = {"index": 0, **part, "logprobs": logprobs, "finish_reason": finish}
        return {**choice, "token_ids": [each.token for each in sampled]} if self._params.token_ids else choice


def _usage(ended: Ended) -> Json:
    """The `usage` object, with the counts of the engine's `served` row."""
    return {
        "prompt_tokens": ended.tokens_in,
        "completion_tokens": ended.tokens_out,
        "total_tokens": ended.tokens_in + ended.tokens_out,
        "prompt_tokens_details": {"cached_tokens": ended.tokens_cached},
    }
