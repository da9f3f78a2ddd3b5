"""What a token is called where clients see it. Server and reference must agree, or every canary would part."""

from collections.abc import Callable, Sequence

BROKEN = "�"


def token_name(decode: Callable[[Sequence[int]], str], token: int) -> str:
    """A token's text; its id, as vLLM writes it, when it has none of its own. Two names must never fall together:
    the alternatives are keys of an object, and a lost one would change the margin between the best two."""
    text = decode([token])
    return f"token_id:{token}" if not text or BROKEN in text else text
