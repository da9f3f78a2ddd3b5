"""The request bodies. A field that changes the answer and is not supported is refused by name."""

import difflib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.core.errors import InvalidRequest

# Fields that do not change the answer.
IGNORED = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}
)
# Fields that change the answer, with the values that mean "as if absent". Any other value is a 400.
REFUSED: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "min_tokens": (0,),
    "use_beam_search": (False,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": (),
    "web_search_options": (),
}

Stop = Annotated[str, Field(min_length=1, max_length=1024)]
Token = Annotated[int, Field(ge=0)]


class Strict(BaseModel):
    """A JSON object that allows no unknown keys and converts no types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(Strict):
    """Options of a stream; `include_usage` adds a last chunk with the token counts."""

    include_usage: bool = False


class Generation(Strict):
    """Fields that both endpoints share. `ignore_eos`, `stop_token_ids`, `return_token_ids` and `priority` are vLLM's;
    requests with a lower `priority` go first, as in vLLM."""

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    stop_token_ids: list[Token] | None = None
    ignore_eos: bool = False
    return_token_ids: bool = False
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    max_tokens: Annotated[int, Field(ge=1)] | None = None


class CompletionRequest(Generation):
    """POST /v1/completions."""

    prompt: str | list[Token] | list[str] | list[list[Token]]
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None


class TextPart(Strict):
    """A text part of a message's content."""

    type: Literal["text"]
    text: str


class Message(Strict):
    """One message of a conversation. `name` is accepted and not passed to the model."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    def plain(self) -> dict[str, str]:
        """The message in the form that the tokenizer takes."""
        parts = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": self.role, "content": parts}


class ChatRequest(Generation):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=5)] | None = None


Model = TypeVar("Model", bound=Generation)


def read(model: type[Model], body: bytes) -> Model:
    """The request in `body`. Raises InvalidRequest that names the field."""
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is not JSON: {error}", None, "invalid_json") from error
    if not isinstance(raw, dict):
        raise InvalidRequest("the body must be one JSON object", None, "invalid_body")
    known = model.model_fields
    kept: dict[str, Any] = {}
    for name, value in raw.items():
        if name in known:
            # null means absent, as for OpenAI; a required field that is null is then missing.
            kept.update({name: value} if value is not None else {})
        elif name in REFUSED:
            _refuse_effect(name, value)
        elif name not in IGNORED:
            near = difflib.get_close_matches(name, [*known, *REFUSED], n=1)
            hint = f'; did you mean "{near[0]}"?' if near else ""
            raise InvalidRequest(f'unknown field "{name}"{hint}', name, "unknown_parameter")
    try:
        request = model.model_validate(kept)
    except ValidationError as error:
        raise _invalid(error, frozenset(known)) from error
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest("stream_options is for streams only; set stream to true", "stream_options")
    return request


def _refuse_effect(name: str, value: object) -> None:
    neutral = REFUSED[name]
    # 1 == True in Python, and "n": true is a mistake.
    if value is None or any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in neutral):
        return
    allowed = f"; only {' or '.join(map(repr, neutral))} is" if neutral else ""
    raise InvalidRequest(f'"{name}": {_short(value)} is not supported{allowed}', name, "unsupported_parameter")


def _invalid(error: ValidationError, known: frozenset[str]) -> InvalidRequest:
    """One error with all problems in its text and the first field as `param`. Problems of one field are joined."""
    texts: dict[str, list[str]] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        place = [str(part) for part in each["loc"]]
        name = place[0] if place else "body"
        at = name + "".join(f"[{part}]" for part in place[1:] if part.isdigit())
        said = texts.setdefault(at, [])
        if each["msg"] not in said:
            said.append(each["msg"])
    message = "; ".join(f"{name}: {' or '.join(said)}" for name, said in texts.items())
    first = next(iter(texts)).split("[")[0]
    return InvalidRequest(message, first if first in known else None, "invalid_value")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
