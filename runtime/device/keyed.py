"""A model without weights: what it says is a keyed function of all tokens before, as far as they are in its KV.

    slot(p)   = slot(p - 1) + mix(token[p], p)        read through the block table, written through the slots
    token     = printable(scramble(slot(last) ^ key))

Each slot holds a running hash of its whole prefix, as K and V of a deep layer do. A lost, doubled, swapped or foreign
token changes every token after it; `expected` says what a request must get, alone or in any company.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from runtime.core.work import Ints, Sampled, Work

FIRST, LETTERS = 32, 95
"""Tokens are printable ASCII, so that a text has as many characters as tokens."""
VOCABULARY = 128

_MASK = (1 << 64) - 1
_TOKEN, _PLACE = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

Words = npt.NDArray[np.uint64]


class KeyedModel:
    """Implements `runtime.device.ports.StepModel` over a KV of its own, one hash a slot."""

    def __init__(self, blocks: int, block_tokens: int, seed: int) -> None:
        self._block_tokens = block_tokens
        self._kv: Words = np.zeros(blocks * block_tokens, np.uint64)
        self._key = key_of(seed)

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """See StepModel."""
        starts = work.row_starts[:-1]
        steps = mix(work.token_ids, work.positions)
        running = np.cumsum(steps, dtype=np.uint64)
        offsets = self._past(work, starts) - (running[starts] - steps[starts])
        running += offsets if len(offsets) == len(running) else np.repeat(offsets, np.diff(work.row_starts))
        self._kv[work.slots] = running
        states = running[work.row_starts[1:] - 1].tolist()
        return tuple(
            None if sampling is None else drawn(state, self._key, sampling.logprobs is not None)
            for state, sampling in zip(states, work.sampling, strict=True)
        )

    def state(self, table: Sequence[int], computed: int) -> int:
        """What the KV of one row holds of its first `computed` tokens."""
        last = computed - 1
        return int(self._kv[table[last // self._block_tokens] * self._block_tokens + last % self._block_tokens])

    def follow(self, state: int, token: int, place: int, with_logprobs: bool) -> tuple[int, Sampled]:
        """The state after `token` at `place`, and the token drawn from it; the KV is not touched."""
        after = (state + scramble_one((token * _TOKEN + place * _PLACE) & _MASK)) & _MASK
        return after, drawn(after, self._key, with_logprobs)

    def _past(self, work: Work, starts: Ints) -> Words:
        """What each row's KV holds of its tokens before this launch: the slot of the last of them, 0 for none."""
        size = self._block_tokens
        before = (work.positions[starts] - 1).tolist()
        slots = [
            table[at // size] * size + at % size if at >= 0 else -1
            for table, at in zip(work.block_tables, before, strict=True)
        ]
        past = self._kv[slots]
        past[[at < 0 for at in before]] = 0
        return past


def key_of(seed: int) -> int:
    """The key of a seed's answers."""
    return scramble_one((seed * _TOKEN + _PLACE) & _MASK)


def drawn(state: int, key: int, with_logprobs: bool) -> Sampled:
    """The token that follows `state`, with keyed log probabilities where they are wanted. The margin between the best
    two is at least 0.25: a token that parts is never rounding."""
    word = scramble_one(state ^ key)
    token = FIRST + word % LETTERS
    if not with_logprobs:
        return Sampled(token)
    best = -((word >> 16) & 0xFFFF) / 0x10000
    second = best - 0.25 - ((word >> 32) & 0xFFFF) / 0x10000
    other = FIRST + (token - FIRST + 1 + (word >> 48) % (LETTERS - 1)) % LETTERS
    return Sampled(token, best, ((token, best), (other, second)))


def expected(prompt: Sequence[int], n: int, seed: int, with_logprobs: bool = False) -> list[Sampled]:
    """The answer of `n` tokens that follows `prompt`, without any KV."""
    key, tokens = key_of(seed), np.asarray(prompt, np.int64)
    state = int(mix(tokens, np.arange(len(tokens))).sum(dtype=np.uint64))
    answer = []
    for at in range(len(tokens), len(tokens) + n):
        sampled = drawn(state, key, with_logprobs)
        answer.append(sampled)
        state = (state + scramble_one((sampled.token * _TOKEN + at * _PLACE) & _MASK)) & _MASK
    return answer


def prompt_tokens(parts: Sequence[tuple[int, int]]) -> list[int]:
    """Prompt tokens of (seed, count) parts, first part first; equal seeds give equal beginnings."""
    drawn_parts = (_of_part(seed, count) for seed, count in parts)
    return list(chain.from_iterable(drawn_parts))


def _of_part(seed: int, count: int) -> list[int]:
    words = _scramble(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_PLACE) + np.uint64(seed & _MASK))
    tokens: list[int] = (words % np.uint64(LETTERS) + np.uint64(FIRST)).tolist()
    return tokens


def mix(tokens: Ints, positions: Ints) -> Words:
    """One word for each (token, position)."""
    return _scramble(tokens.astype(np.uint64) * np.uint64(_TOKEN) + positions.astype(np.uint64) * np.uint64(_PLACE))


def _scramble(words: Words) -> Words:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_FIRST)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_SECOND)
    return words ^ (words >> np.uint64(31))


def scramble_one(word: int) -> int:
    """The same for one Python number."""
    word = ((word ^ (word >> 30)) * _FIRST) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND) & _MASK
    return word ^ (word >> 31)
