"""Converts text to token ids and back, by `tokenizer.json` where there is one, else one token for each byte.

Decoding a list of ids never fails: bytes that are no UTF-8 (yet) become U+FFFD, so the server can tell by the end of a
text whether a character is still on its way.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer as RustTokenizer

from runtime.models.chat import Template, plain_chat, read_template
from runtime.models.config import ModelRefused, read_config

BOS, EOS = 256, 257
"""Special ids of the byte-level vocabulary; 0 to 255 are the bytes themselves."""


def read_tokenizer(directory: Path) -> "ByteTokenizer | FileTokenizer":
    """The tokenizer of a model directory. Raises ModelRefused when it can't be used with the model beside it."""
    config = read_config(directory)
    stops = frozenset(config.eos_tokens) | _generation_stops(directory)
    if not (directory / "tokenizer.json").is_file():
        if config.vocabulary <= EOS:
            text = f"there is no tokenizer.json, and vocab_size {config.vocabulary} is too small for bytes (258)"
            raise ModelRefused(directory, [text])
        return ByteTokenizer(config.vocabulary, stops or frozenset([EOS]))
    try:
        tokenizer = RustTokenizer.from_file(str(directory / "tokenizer.json"))
    except Exception as error:  # the binding raises plain Exception
        raise ModelRefused(directory, [f"tokenizer.json can't be read: {error}"]) from error
    if tokenizer.get_vocab_size() > config.vocabulary:
        text = f"tokenizer.json has {tokenizer.get_vocab_size()} tokens, the model {config.vocabulary}"
        raise ModelRefused(directory, [text])
    return FileTokenizer(tokenizer, config.vocabulary, stops, read_template(directory))


class ByteTokenizer:
    """One token for each byte, and BOS in front of a prompt; ids above EOS have no text. Implements
    `runtime.server.ports.Tokenizer`."""

    def __init__(self, vocab_size: int, stop_tokens: frozenset[int] = frozenset([EOS])) -> None:
        self.vocab_size = vocab_size
        self.stop_tokens = stop_tokens

    def encode(self, text: str) -> list[int]:
        """BOS and the bytes of the text in UTF-8."""
        return [BOS, *text.encode("utf-8", "surrogatepass")]

    def decode(self, tokens: Sequence[int]) -> str:
        """See Tokenizer."""
        return bytes(token for token in tokens if token < BOS).decode("utf-8", "replace")

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """See Tokenizer."""
        return self.encode(plain_chat(messages))


class FileTokenizer:
    """The tokenizer of a `tokenizer.json`, with the model's chat template or the plain one. Implements
    `runtime.server.ports.Tokenizer`."""

    def __init__(
        self, tokenizer: RustTokenizer, vocab_size: int, stop_tokens: frozenset[int], template: Template | None
    ) -> None:
        self.vocab_size = vocab_size
        self.stop_tokens = stop_tokens
        self._tokenizer = tokenizer
        self._template = template

    def encode(self, text: str) -> list[int]:
        """See Tokenizer."""
        return list(self._tokenizer.encode(text).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """See Tokenizer."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """See Tokenizer. A template writes its special tokens itself."""
        if self._template is None:
            return self.encode(plain_chat(messages))
        return list(self._tokenizer.encode(self._template.render(messages), add_special_tokens=False).ids)


def _generation_stops(directory: Path) -> frozenset[int]:
    """Stop tokens in generation_config.json: chat models often name the token that ends a turn only there."""
    try:
        named = json.loads((directory / "generation_config.json").read_text(encoding="utf-8")).get("eos_token_id")
    except (FileNotFoundError, ValueError, AttributeError):
        return frozenset()
    listed = named if isinstance(named, list) else [named]
    return frozenset(token for token in listed if isinstance(token, int))
