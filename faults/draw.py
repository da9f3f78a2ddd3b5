"""Random draws as a pure function of seed and names, so that thread order and other faults can't change them."""

import hashlib

_BITS = 53  # bits of a float's mantissa


def draw(seed: int, *names: str | int) -> float:
    """Return a number in [0, 1) that depends only on seed and names; their order and types matter."""
    return _word(seed, names) / 2.0**_BITS


def pick(options: int, seed: int, *names: str | int) -> int:
    """Return a whole number in [0, options). Probabilities are equal to 1 part in 2**53 / options."""
    assert options >= 1, f"pick of {options} options"
    return _word(seed, names) * options >> _BITS


def _word(seed: int, names: tuple[str | int, ...]) -> int:
    # repr, because joining by a separator would make ("a/b", "c") and ("a", "b/c") the same draw.
    text = repr((seed, *names)).encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> (64 - _BITS)
