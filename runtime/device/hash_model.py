"""A model without weights: what it says is a keyed function of all tokens before, as far as they are in its KV.

    slot(p)   = slot(p - 1) + mix(token[p], p)        a token of the prompt, or one that nobody said here
              = slot(p - 1) + STEP * (2p + 1)         the very token that slot(p - 1) says next
    token     = letter(scramble(slot(last) ^ key)) + SAID

Each slot holds a running word of its whole prefix, as K and V of a deep layer do. A lost, doubled, swapped or foreign
token changes every token after it; `expected` says what a request must get, alone or in any company.

What the model says has ids of its own (`SAID` and above, no prompt has them), and while all is well its slots are a
square in p: the sum of 2p + 1 over p is a difference of squares. So k tokens of many rows are one operation.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from runtime.core.work import Ints, Sampled, Work

FIRST, LETTERS = 32, 95
"""Tokens are printable ASCII, so that a text has as many characters as tokens."""
SAID = 128
"""What is added to the letters that the model says."""
VOCABULARY = 256

_MASK = (1 << 64) - 1
_TOKEN, _PLACE = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB
_STEP = 0x8EBC6AF09C88C6E3
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

_LETTERS, _SPOKEN = np.uint64(LETTERS), np.uint64(FIRST + SAID)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)

Words = npt.NDArray[np.uint64]


class HashModel:
    """Implements `runtime.device.ports.StepModel` over a KV of its own, one word a slot."""

    def __init__(self, blocks: int, block_tokens: int, seed: int) -> None:
        self.block_tokens = block_tokens
        self._kv: Words = np.zeros(blocks * block_tokens, np.uint64)
        self._key = key_of(seed)
        self.plain = tuple(Sampled(token) for token in range(VOCABULARY))
        """Each token, drawn without log probabilities."""

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """See StepModel."""
        starts, ends = work.row_starts[:-1], work.row_starts[1:]
        past = self._past(work, starts)
        steps = mix(work.token_ids, work.positions)
        said = work.token_ids >= SAID
        if said.any():
            self._said(work, past, steps, said)
        running = steps.cumsum()
        offsets = past - (running[starts] - steps[starts])
        running += offsets if len(offsets) == len(running) else offsets.repeat(ends - starts)
        self._kv[work.slots] = running
        return self._drawn(running[ends - 1], work)

    @property
    def rows(self) -> Words:
        """[blocks, block_tokens]: all that its blocks hold, for whoever moves them."""
        return self._kv.reshape(-1, self.block_tokens)

    @property
    def slots(self) -> Words:
        """The same, flat: what the KV holds in each slot."""
        return self._kv

    def decode_ahead(self, past: Words, places: Ints, tokens: Ints, steps: int) -> tuple[Words, Ints] | None:
        """What `steps` decode steps of healthy rows do: the states that their KV will hold and the tokens they draw,
        both [rows, steps]. `past` [rows] are the states before, and `tokens` [rows] go in first, at `places` [rows].
        None when one of these is not what the state before it says: then no such rule holds."""
        if np.count_nonzero(following(past, self._key) != tokens):
            return None
        first = places[:, None]
        states = past[:, None] + _squares(first, first + np.arange(1, steps + 1))
        return states, following(states, self._key)

    def sampled(self, state: int) -> Sampled:
        """The token that follows `state`, with log probabilities."""
        return drawn(state, self._key, with_logprobs=True)

    def _drawn(self, states: Words, work: Work) -> tuple[Sampled | None, ...]:
        plain = self.plain
        return tuple(
            None
            if sampling is None
            else plain[token]
            if sampling.logprobs is None
            else drawn(int(states[row]), self._key, with_logprobs=True)
            for row, (token, sampling) in enumerate(
                zip(following(states, self._key).tolist(), work.sampling, strict=True)
            )
        )

    def _past(self, work: Work, starts: Ints) -> Words:
        """What each row's KV holds of its tokens before this launch: the slot of the last of them, 0 for none."""
        size = self.block_tokens
        before = (work.positions[starts] - 1).tolist()
        slots = [
            table[at // size] * size + at % size if at >= 0 else -1
            for table, at in zip(work.block_tables, before, strict=True)
        ]
        past = self._kv[slots]
        if -1 in slots:
            past[[at < 0 for at in before]] = 0
        return past

    def _said(self, work: Work, past: Words, steps: Words, said: npt.NDArray[np.bool_]) -> None:
        """Put the steps of those tokens right that are what the state before them says next."""
        lengths = work.row_starts[1:] - work.row_starts[:-1]
        alone = np.flatnonzero(lengths == 1)
        at = work.row_starts[alone]
        well = said[at] & (work.token_ids[at] == following(past[alone], self._key))
        places = work.positions[at]
        steps[at] = np.where(well, _squares(places, places + 1), steps[at])
        for row in np.flatnonzero(lengths > 1).tolist():  # computed again after a preemption: rare
            start, end = int(work.row_starts[row]), int(work.row_starts[row + 1])
            if said[start:end].any():
                self._again(work, start, end, past[row : row + 1], steps)

    def _again(self, work: Work, start: int, end: int, state: Words, steps: Words) -> None:
        """One row of a prompt and tokens that were said before: guess that all are well, and walk where they aren't.
        `state` has one element: a numpy scalar would warn where an array wraps."""
        tokens, places = work.token_ids[start:end], work.positions[start:end]
        first = start + int(np.argmax(tokens >= SAID))
        state = state + steps[start:first].sum(dtype=np.uint64, keepdims=True)
        while first < end:
            at = first - start
            guess = state + _squares(places[at : at + 1], places[at:])
            wrong = np.flatnonzero(tokens[at:] != following(guess, self._key))
            well = int(wrong[0]) if len(wrong) else end - first
            steps[first : first + well] = _squares(places[at : at + well], places[at : at + well] + 1)
            if first + well == end:
                return
            state = guess[well : well + 1] + steps[first + well : first + well + 1]
            first += well + 1


def key_of(seed: int) -> int:
    """The key of a seed's answers."""
    return scramble_one((seed * _TOKEN + _PLACE) & _MASK)


def following(states: Words, key: int) -> Ints:
    """The token that each of `states` says next."""
    words = _scramble(states ^ np.uint64(key))
    words %= _LETTERS
    words += _SPOKEN
    return words.view(np.int64)


def drawn(state: int, key: int, with_logprobs: bool) -> Sampled:
    """The token that follows `state`, with keyed log probabilities where they are wanted. The margin between the best
    two is at least 0.25: a token that parts is never rounding."""
    word = scramble_one(state ^ key)
    letter = word % LETTERS
    token = FIRST + SAID + letter
    if not with_logprobs:
        return Sampled(token)
    best = -((word >> 16) & 0xFFFF) / 0x10000
    second = best - 0.25 - ((word >> 32) & 0xFFFF) / 0x10000
    other = FIRST + SAID + (letter + 1 + (word >> 48) % (LETTERS - 1)) % LETTERS
    return Sampled(token, best, ((token, best), (other, second)))


def expected(prompt: Sequence[int], n: int, seed: int, with_logprobs: bool = False) -> list[Sampled]:
    """The answer of `n` tokens that follows `prompt`, without any KV. No token of the prompt may be one that the model
    says: then it would be a longer answer to a shorter prompt."""
    key, tokens = key_of(seed), np.asarray(prompt, np.int64)
    assert len(tokens) and int(tokens.max()) < SAID, "a prompt has no tokens that only the model says"
    places = np.arange(len(tokens), len(tokens) + n)
    states = mix(tokens, np.arange(len(tokens))).sum(dtype=np.uint64) + _squares(places[:1], places)
    if not with_logprobs:
        return [Sampled(token) for token in following(states, key).tolist()]
    return [drawn(one, key, with_logprobs=True) for one in states.tolist()]


def text_of(tokens: Sequence[int]) -> Iterator[str]:
    """One character for each token of an answer."""
    return (chr(token & (SAID - 1)) for token in tokens)


def prompt_tokens(parts: Sequence[tuple[int, int]]) -> list[int]:
    """Prompt tokens of (seed, count) parts, first part first; equal seeds give equal beginnings. One pass: parts of
    many prompts together cost a third of what each costs by itself."""
    begins, at = [], 0
    for seed, count in parts:
        begins.append((seed - at * _PLACE) & _MASK)
        at += count
    words = np.arange(1, at + 1, dtype=np.uint64)
    words *= np.uint64(_PLACE)
    words += np.array(begins, np.uint64).repeat([count for _, count in parts])
    _scramble(words)
    words -= words // _LETTERS * _LETTERS  # a third of the time of %
    letters = words.astype(np.uint8)
    letters += np.uint8(FIRST)
    return list(letters.tobytes())


def mix(tokens: Ints, positions: Ints) -> Words:
    """One word for each (token, position)."""
    words = tokens.astype(np.uint64)
    words *= np.uint64(_TOKEN)
    words += positions.view(np.uint64) * np.uint64(_PLACE)
    return _scramble(words)


def _squares(first: Ints, end: Ints) -> Words:
    """What the healthy steps from place `first` up to before `end` add."""
    return (end * end - first * first).view(np.uint64) * np.uint64(_STEP)


def _scramble(words: Words) -> Words:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014), in place: these arrays are small and many."""
    words ^= words >> _30
    words *= np.uint64(_FIRST)
    words ^= words >> _27
    words *= np.uint64(_SECOND)
    words ^= words >> _31
    return words


def scramble_one(word: int) -> int:
    """The same for one Python number."""
    word = ((word ^ (word >> 30)) * _FIRST) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND) & _MASK
    return word ^ (word >> 31)
