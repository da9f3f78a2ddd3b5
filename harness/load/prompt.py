"""Prompt text of an exact size, the same for the same plan row, on every machine.

Our byte-level tokenizer makes one token of one byte, and the text is ASCII, so sizes are exact for it (a chat
template adds its own). For a foreign target they are sizes in characters: about 3.5 to 5 characters a token with the
usual BPE vocabularies; the true count is then the reply's `prompt_tokens`.
"""

import hashlib
import random
from collections.abc import Sequence

from scenarios.arrivals import PromptPart

# Short words of mixed length, so that BPE tokenizers also see ordinary text.
_WORDS = (
    "the", "sea", "was", "calm", "and", "then", "it", "was", "not", "a", "ship", "goes", "out", "with", "her", "crew",
    "to", "find", "what", "breaks", "before", "its", "owner", "does", "wind", "rope", "engine", "pump", "deck",
    "anchor", "harbour", "captain", "watch", "night", "storm", "wave", "hull", "keel", "rudder", "signal", "lamp",
    "chart", "speed", "turn", "stop", "start", "hold", "load", "cargo", "water", "pressure", "test", "again",
    "slowly", "under", "over", "between", "because", "after",
)  # fmt: skip
_BATCH = 64  # words drawn at once: fixed, so that a longer text of a seed starts with the shorter one


def prompt_text(parts: Sequence[PromptPart]) -> str:
    """The parts' texts in order. Parts of one seed are alike from their start, whatever their length."""
    return "".join(_text(str(part.seed), part.tokens) for part in parts)


def canary_text(seed: int, index: int, tokens: int = 48) -> str:
    """The canary prompt of that index: fixed for a seed, and in common with no load."""
    return _text(f"{seed}/canary/{index}", tokens)


def text_digest(text: str) -> str:
    """Digest that names a prompt in the history, where its text is not kept."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _text(name: str, size: int) -> str:
    """Its own name's digest comes first: prompts of different rows part at once and share no KV block by chance."""
    rng = random.Random(name)
    text = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    while len(text) < size:
        text += " " + " ".join(rng.choices(_WORDS, k=_BATCH))
    return text[:size]
