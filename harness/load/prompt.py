"""Prompt text of an exact size, the same for the same seed and plan row, on every machine.

Our byte-level tokenizer makes one token of one byte, and the text is ASCII, so `tokens` is exact for it (a chat
template adds its own). For a foreign target it is a size in characters: about 3.5 to 5 characters a token with the
usual BPE vocabularies; the true count is then the reply's `prompt_tokens`.
"""

import hashlib
import random

# Short words of mixed length, so that BPE tokenizers also see ordinary text.
_WORDS = (
    "the", "sea", "was", "calm", "and", "then", "it", "not", "a", "ship", "goes", "out", "with", "her", "crew",
    "to", "find", "what", "breaks", "before", "its", "owner", "does", "wind", "rope", "engine", "pump", "deck",
    "anchor", "harbour", "captain", "watch", "night", "storm", "wave", "hull", "keel", "rudder", "signal", "lamp",
    "chart", "speed", "turn", "stop", "start", "hold", "load", "cargo", "water", "pressure", "test", "again",
    "slowly", "under", "over", "between", "because", "after",
)  # fmt: skip


def prompt_text(seed: int, load: str, plan_row: int, tokens: int, prefix: int | None = None) -> str:
    """ASCII text of exactly `tokens` characters. With a `prefix`, the first half is that of (seed, load, prefix).

    So requests of a load with the same prefix share text (and KV blocks) from the start, and no two loads do. A
    shorter prompt's prefix is the start of a longer one's.
    """
    shared = 0 if prefix is None else tokens // 2
    return _text(f"{seed}/{load}/prefix/{prefix}", shared) + _text(f"{seed}/{load}/{plan_row}", tokens - shared)


def canary_text(seed: int, index: int, tokens: int = 48) -> str:
    """The canary prompt of that index: fixed for a seed, and no prefix in common with any load."""
    return _text(f"{seed}/canary/{index}", tokens)


def sha(text: str) -> str:
    """Digest that names a prompt in the history, where its text is not kept."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _text(name: str, size: int) -> str:
    if size <= 0:
        return ""
    rng = random.Random(name)
    # The row's own name comes first: prompts of different rows part at once, so they share no KV block by chance.
    text = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    while len(text) < size:
        text += " " + " ".join(rng.choices(_WORDS, k=64))  # a fixed batch, so a longer text starts with the shorter one
    return text[:size]
