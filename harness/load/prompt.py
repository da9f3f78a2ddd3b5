"""Makes prompt text of an exact size, equal for equal plan rows on every machine.

Our byte-level tokenizer makes one token of each byte and the text is ASCII, so sizes in tokens are exact for it, apart
from a chat template. For a foreign target they are sizes in characters, about 3.5 to 5 characters per token; the true
count is the reply's `prompt_tokens`.
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
_BATCH = 64  # words drawn at once: a constant, so that a longer text of a seed starts with the shorter one


def prompt_text(parts: Sequence[PromptPart]) -> str:
    """The texts of the parts in order. Parts of one seed begin alike, whatever their length."""
    return "".join(_text(str(part.seed), part.tokens) for part in parts)


def canary_text(seed: int, index: int, tokens: int = 48) -> str:
    """The canary prompt of an index: fixed for a seed and different from all loads."""
    return _text(f"{seed}/canary/{index}", tokens)


def text_digest(text: str) -> str:
    """The digest that identifies a text in the history, where the text is not kept."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _text(name: str, size: int) -> str:
    """Text that starts with the digest of its name, so that prompts of different rows share no KV block by chance."""
    rng = random.Random(name)
    text = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    while len(text) < size:
        text += " " + " ".join(rng.choices(_WORDS, k=_BATCH))
    return text[:size]
