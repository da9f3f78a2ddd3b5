"""The name of a token in answers to clients. Server and reference share it, or every canary would differ."""

from collections.abc import Callable, Sequence

BROKEN = "�"


def token_name(decode: Callable[[Sequence[int]], str], token: int) -> str:
    """Return the text of `token`, or "token_id:ID", as vLLM writes it, when the token has no whole text.

    Names must be unique: the alternatives are keys of a JSON object, and a lost key would change the margin between
    the two most likely tokens.
    """
    text = decode([token])
    return f"token_id:{token}" if not text or BROKEN in text else text
