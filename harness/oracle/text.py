"""Text to token ids and back: by `tokenizer.json` where the model has one, else BOS and one token for each byte."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

_BOS = 256


class ModelTokenizer:
    """The tokenizer of a model directory."""

    def __init__(self, directory: Path) -> None:
        path = directory / "tokenizer.json"
        self._tokenizer = Tokenizer.from_file(str(path)) if path.is_file() else None

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt."""
        if self._tokenizer is not None:
            return list(self._tokenizer.encode(text).ids)
        return [_BOS, *text.encode("utf-8", "surrogatepass")]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`, without special tokens. Broken UTF-8 becomes U+FFFD."""
        if self._tokenizer is not None:
            return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))
        return bytes(token for token in tokens if token < _BOS).decode("utf-8", "replace")

    def name(self, token: int) -> str:
        """The text of one token, or "token_id:ID" where it has no whole text."""
        text = self.decode([token])
        return f"token_id:{token}" if not text or "\ufffd" in text else text
