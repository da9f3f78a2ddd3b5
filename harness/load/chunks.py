"""Reads the JSON of the OpenAI protocol: chunks and bodies of chat and completions, and errors in both forms.

    event -> parse_chunk -> merge_chunk -> StreamStats: text, finish, logprobs, usage, error

No function raises for data from the server: a wrong type under a known key is ignored.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from harness.load.prompt import text_digest

SAMPLE_CHARS_MAX = 4096


@dataclass
class TokenLog:
    """Tokens of a reply with logprobs. Lists have one entry for each token; a margin is best minus second logprob."""

    tokens: list[str] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    margins: list[float | None] = field(default_factory=list)


@dataclass
class StreamStats:
    """The statistics of one reply so far. Times (ns) are given by the caller; None means not seen."""

    first_ns: int | None = None  # first event with text
    last_ns: int | None = None  # last event with text
    done_ns: int | None = None  # [DONE], or the whole body
    chunks: int = 0  # events with text
    gap_ns_sum: int = 0
    gap_ns_max: int | None = None
    finish: str | None = None
    error: str | None = None  # in-band error, as "code: message"
    error_words: tuple[str, ...] = ()  # its code and type
    malformed: int = 0
    malformed_text: str | None = None  # the first malformed event, for the sample
    prompt_tokens: int | None = None  # from usage
    output_tokens: int | None = None  # from usage
    ids: int | None = None  # number of received token ids, where the target sends them; counted by the client
    log: TokenLog = field(default_factory=TokenLog)
    sample: str = ""  # start of the text, at most SAMPLE_CHARS_MAX

    def count_tokens(self) -> tuple[int | None, str | None]:
        """The number of output tokens and its origin: "ids", "usage", "logprobs" or "chunks"."""
        if self.ids is not None:
            return self.ids, "ids"
        if self.output_tokens is not None:
            return self.output_tokens, "usage"
        if self.log.tokens:
            return len(self.log.tokens), "logprobs"
        return (self.chunks, "chunks") if self.chunks else (None, None)


def read_body(body: bytes, now_ns: int) -> tuple[StreamStats, str | None]:
    """Read a reply that is one JSON body: its statistics, without token times, and the digest of its text."""
    stats = StreamStats()
    whole = parse_chunk(body)
    if whole is None:
        stats.malformed = 1
        stats.malformed_text = body[:SAMPLE_CHARS_MAX].decode("utf-8", "backslashreplace")
        return stats, None
    text = merge_chunk(stats, whole)
    stats.done_ns = now_ns
    stats.sample = text[:SAMPLE_CHARS_MAX]
    stats.chunks = 1 if text else 0
    return stats, text_digest(text) if text else None


def parse_chunk(data: bytes) -> dict[str, Any] | None:
    """The JSON object in `data`; None when it is not a chunk of the protocol."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if value.get("error") or value.get("object") == "error":
        return value
    choices = value.get("choices")
    bare = choices is None and isinstance(value.get("usage"), dict)  # some servers end a stream with usage alone
    return value if isinstance(choices, list) or bare else None


def merge_chunk(stats: StreamStats, chunk: dict[str, Any]) -> str:
    """Merge one chunk or body into `stats`. Returns its text, "" for none."""
    if chunk.get("error") or chunk.get("object") == "error":
        _error(stats, chunk.get("error") or chunk)  # nested form, or the older flat one
        return ""
    usage = chunk.get("usage")
    if isinstance(usage, dict):
        stats.prompt_tokens = _count(usage.get("prompt_tokens"), stats.prompt_tokens)
        stats.output_tokens = _count(usage.get("completion_tokens"), stats.output_tokens)
    text = ""
    for choice in _listed(chunk.get("choices")):
        if not isinstance(choice, dict):
            stats.malformed += 1
            continue
        if choice.get("index") not in (0, None):
            continue  # the load asks for one choice; others are ignored
        if isinstance(choice.get("finish_reason"), str):
            stats.finish = choice["finish_reason"]
        text += _text_of(choice)
        if isinstance(choice.get("token_ids"), list):
            stats.ids = (stats.ids or 0) + len(choice["token_ids"])
        if isinstance(choice.get("logprobs"), dict):
            _logprobs(stats.log, choice["logprobs"])
    return text


def _text_of(choice: dict[str, Any]) -> str:
    part = choice.get("delta") or choice.get("message") or choice
    if not isinstance(part, dict):
        return ""
    words = [part.get(key) for key in ("reasoning_content", "reasoning", "content", "text")]
    return "".join(word for word in words if isinstance(word, str))


def _error(stats: StreamStats, error: object) -> None:
    if stats.error is not None:
        return  # the first one is the cause
    if not isinstance(error, dict):
        error = {"message": str(error)}
    words = tuple(str(error[key]) for key in ("code", "type") if error.get(key) is not None)
    stats.error_words = words or ("error",)
    stats.error = f"{stats.error_words[0]}: {error.get('message', '')}"[:512]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: object, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _logprobs(log: TokenLog, said: dict[str, Any]) -> None:
    """Append the tokens of `logprobs`: chat has a list of objects in `content`, completions has three parallel
    lists."""
    if isinstance(said.get("content"), list):
        for entry in said["content"]:
            if isinstance(entry, dict):
                tops = [top.get("logprob") for top in _listed(entry.get("top_logprobs")) if isinstance(top, dict)]
                _log_token(log, entry.get("token"), entry.get("logprob"), tops)
        return
    tokens, values, tops_of = (_listed(said.get(key)) for key in ("tokens", "token_logprobs", "top_logprobs"))
    for position, token in enumerate(tokens):
        top = tops_of[position] if position < len(tops_of) else None
        value = values[position] if position < len(values) else None
        _log_token(log, token, value, list(top.values()) if isinstance(top, dict) else [])


def _log_token(log: TokenLog, token: object, logprob: object, tops: list[Any]) -> None:
    log.tokens.append(str(token))
    log.logprobs.append(float(logprob) if isinstance(logprob, (int, float)) else None)
    best = sorted((float(top) for top in tops if isinstance(top, (int, float))), reverse=True)
    log.margins.append(best[0] - best[1] if len(best) > 1 else None)
