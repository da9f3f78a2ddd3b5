"""A model without weights: the next token is a keyed hash of all earlier tokens, read from the model's KV.

    slot(p)   = slot(p - 1) + mix(token[p], p)        a prompt token, or a token that does not follow from slot(p - 1)
              = slot(p - 1) + STEP * (2p + 1)         the token that follows from slot(p - 1)
    token     = letter(scramble(slot(last) ^ key)) + SAID

Each KV slot holds one uint64, a running hash of the whole prefix, as K and V of a deep layer depend on it. A lost,
repeated, swapped or foreign token changes every later token. `expected` returns the answer that a request must get,
in any batch.

Generated tokens have ids of their own (`SAID` and above), which no prompt contains. The hashes of correctly generated
tokens are a quadratic in p, since the sum of 2p + 1 over p is a difference of squares. So `decode_ahead` computes k
tokens of many rows in one array operation.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from runtime.core.work import Ints, Sampled, Words, Work

FIRST, LETTERS = 32, 95
"""Tokens are printable ASCII, so that a text has as many characters as tokens."""
SAID = 128
"""Offset of generated token ids: the id of a generated letter is its character code plus this."""
VOCABULARY = 256

_MASK = (1 << 64) - 1
_TOKEN, _PLACE = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB
_STEP = 0x8EBC6AF09C88C6E3
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

# Arrays without dims: a numpy scalar makes each operation take twice as long.
_LETTERS, _SPOKEN, _30, _27, _31, _MIX_TOKEN, _MIX_PLACE, _SQUARE, _MUL_FIRST, _MUL_SECOND = (
    np.array(value, np.uint64) for value in (LETTERS, FIRST + SAID, 30, 27, 31, _TOKEN, _PLACE, _STEP, _FIRST, _SECOND)
)


class HashModel:
    """Implements `runtime.device.ports.StepModel` over its own KV, one uint64 per slot."""

    def __init__(self, blocks: int, block_tokens: int, seed: int) -> None:
        self.block_tokens = block_tokens
        self._kv: Words = np.zeros(blocks * block_tokens, np.uint64)
        self._key = key_of(seed)
        self.plain = tuple(Sampled(token) for token in range(VOCABULARY))
        """[VOCABULARY]: the result for each token without log probabilities."""

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """See StepModel."""
        starts, ends = work.row_starts[:-1], work.row_starts[1:]
        past = self._past(work, starts)
        steps = mix(work.token_ids, work.positions)
        generated = work.token_ids >= SAID
        if np.count_nonzero(generated):
            self._replace_generated(work, past, steps, generated)
        if len(past) == len(steps):
            running = last = steps + past
        else:
            running = steps.cumsum()
            running += (past - (running[starts] - steps[starts])).repeat(ends - starts)
            last = running[ends - 1]
        self._kv[work.slots] = running
        return self._drawn(last, work)

    @property
    def rows(self) -> Words:
        """The KV as [blocks, block_tokens], for the mover."""
        return self._kv.reshape(-1, self.block_tokens)

    @property
    def slots(self) -> Words:
        """The KV as [blocks * block_tokens], by slot."""
        return self._kv

    def decode_ahead(self, past: Words, positions: Ints, tokens: Ints, steps: int) -> tuple[Words, Ints] | None:
        """Return the KV states and the sampled tokens of `steps` decode steps, both [rows, steps].

        `past` [rows] are the states before the steps; `tokens` [rows] are the first inputs, at `positions` [rows].
        Return None when a token does not follow from its state, since the closed form does not hold then.
        """
        if np.count_nonzero(following(past, self._key) != tokens):
            return None
        first = positions[:, None]
        states = past[:, None] + _squares(first, first + np.arange(1, steps + 1))
        return states, following(states, self._key)

    def sampled(self, state: int) -> Sampled:
        """Return the token that follows `state`, with log probabilities."""
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
        """Return the state [rows] of each row before this launch, from the slot of its last token; 0 without one."""
        size, before = self.block_tokens, work.positions[starts] - 1
        past: Words = self._kv[work.block_tables[np.arange(len(before)), before // size] * size + before % size]
        past[before < 0] = 0
        return past

    def _replace_generated(self, work: Work, past: Words, steps: Words, generated: npt.NDArray[np.bool_]) -> None:
        """Replace the `steps` [tokens] of generated tokens that follow from the state before them."""
        if len(past) == len(steps):
            follows = generated & (work.token_ids == following(past, self._key))
            np.copyto(steps, _squares(work.positions, work.positions + 1), where=follows)
            return
        lengths = work.row_starts[1:] - work.row_starts[:-1]
        alone = np.flatnonzero(lengths == 1)
        at = work.row_starts[alone]
        follows = generated[at] & (work.token_ids[at] == following(past[alone], self._key))
        positions = work.positions[at]
        steps[at] = np.where(follows, _squares(positions, positions + 1), steps[at])
        for row in np.flatnonzero(lengths > 1).tolist():  # recomputed after a preemption: rare
            start, end = int(work.row_starts[row]), int(work.row_starts[row + 1])
            if generated[start:end].any():
                self._replace_in_row(work, start, end, past[row : row + 1], steps)

    def _replace_in_row(self, work: Work, start: int, end: int, state: Words, steps: Words) -> None:
        """Replace the steps of one row of several tokens, prompt and generated ones. Assume that all generated tokens
        follow, and start over behind each that does not. `state` has shape [1]: a numpy scalar would warn on overflow,
        where an array wraps."""
        tokens, positions = work.token_ids[start:end], work.positions[start:end]
        first = start + int(np.argmax(tokens >= SAID))
        state = state + steps[start:first].sum(dtype=np.uint64, keepdims=True)
        while first < end:
            at = first - start
            guess = state + _squares(positions[at : at + 1], positions[at:])
            wrong = np.flatnonzero(tokens[at:] != following(guess, self._key))
            count = int(wrong[0]) if len(wrong) else end - first
            steps[first : first + count] = _squares(positions[at : at + count], positions[at : at + count] + 1)
            if first + count == end:
                return
            state = guess[count : count + 1] + steps[first + count : first + count + 1]
            first += count + 1


def key_of(seed: int) -> int:
    """Return the hash key of `seed`."""
    return scramble_one((seed * _TOKEN + _PLACE) & _MASK)


def following(states: Words, key: int) -> Ints:
    """Return the token that follows each of `states`."""
    words = _scramble(states ^ np.uint64(key))
    words %= _LETTERS
    words += _SPOKEN
    return words.view(np.int64)


def drawn(state: int, key: int, with_logprobs: bool) -> Sampled:
    """Return the token that follows `state`, with log probabilities on request. The best two are at least 0.25 apart,
    so that rounding never explains another token."""
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
    """Return the first `n` tokens of the answer to `prompt`, computed without KV. The prompt must not contain generated
    tokens, since these would continue an answer to a shorter prompt."""
    key, tokens = key_of(seed), np.asarray(prompt, np.int64)
    assert len(tokens) and int(tokens.max()) < SAID, "a prompt must not contain tokens that only the model says"
    positions = np.arange(len(tokens), len(tokens) + n)
    states = mix(tokens, np.arange(len(tokens))).sum(dtype=np.uint64) + _squares(positions[:1], positions)
    if not with_logprobs:
        return [Sampled(token) for token in following(states, key).tolist()]
    return [drawn(one, key, with_logprobs=True) for one in states.tolist()]


def text_of(tokens: Sequence[int]) -> Iterator[str]:
    """Yield one character for each token of an answer."""
    return (chr(token & (SAID - 1)) for token in tokens)


def prompt_tokens(parts: Sequence[tuple[int, int]]) -> list[int]:
    """Return the prompt tokens of (seed, count) parts, in order; parts of equal seeds begin with equal tokens. One call
    for the parts of many prompts costs a third of one call per part."""
    begins, at = [], 0
    for seed, count in parts:
        begins.append((seed - at * _PLACE) & _MASK)
        at += count
    words = np.arange(1, at + 1, dtype=np.uint64)
    words *= _MIX_PLACE
    words += np.array(begins, np.uint64).repeat([count for _, count in parts])
    _scramble(words)
    words -= words // _LETTERS * _LETTERS  # a third of the time of %
    letters = words.astype(np.uint8)
    letters += np.uint8(FIRST)
    return list(letters.tobytes())


def mix(tokens: Ints, positions: Ints) -> Words:
    """Return one hash (uint64) for each pair of token and position."""
    words = tokens.astype(np.uint64)
    words *= _MIX_TOKEN
    words += positions.view(np.uint64) * _MIX_PLACE
    return _scramble(words)


def _squares(first: Ints, end: Ints) -> Words:
    """Return the sum of the steps of following tokens at positions `first` <= p < `end`."""
    return (end * end - first * first).view(np.uint64) * _SQUARE


def _scramble(words: Words) -> Words:
    """Apply the finaliser of splitmix64 (Steele, Lea, Flood 2014) in place, since there are many small arrays."""
    words ^= words >> _30
    words *= _MUL_FIRST
    words ^= words >> _27
    words *= _MUL_SECOND
    words ^= words >> _31
    return words


def scramble_one(word: int) -> int:
    """Apply the finaliser of splitmix64 to one Python integer."""
    word = ((word ^ (word >> 30)) * _FIRST) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND) & _MASK
    return word ^ (word >> 31)
