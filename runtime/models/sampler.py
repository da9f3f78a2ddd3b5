"""Samples tokens from logits: greedy, temperature, top-p. A draw depends on the request's seed and position only."""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.core.work import Sampled, Sampling


def choose(logits: Tensor, samplings: Sequence[Sampling], positions: Sequence[int]) -> Tensor:
    """One token id for each row, [rows] int64. `logits` are [rows, vocabulary]; `positions` are those of the new
    tokens."""
    chosen = logits.argmax(1)
    for row, (sampling, position) in enumerate(zip(samplings, positions, strict=True)):
        if sampling.temperature > 0:
            chosen[row] = _draw(logits[row], sampling, position)
    return chosen


def describe(chosen: Tensor, logits: Tensor, samplings: Sequence[Sampling]) -> list[Sampled]:
    """The chosen tokens with the log probabilities that each client asked for, at temperature 1."""
    tokens = chosen.tolist()
    drawn: list[Sampled] = [Sampled(token) for token in tokens]
    asked = [row for row, sampling in enumerate(samplings) if sampling.logprobs is not None]
    if asked:
        for row, logprobs in zip(asked, torch.log_softmax(logits[asked].float(), 1), strict=True):
            drawn[row] = _described(tokens[row], logprobs, samplings[row].logprobs or 0)
    return drawn


def uniform(seed: int, position: int) -> float:
    """The random number in [0, 1) of this seed and position; it is equal in any batch and any process."""
    digest = hashlib.blake2b(f"{seed}/{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


def _draw(logits: Tensor, sampling: Sampling, position: int) -> int:
    """Inverts the cumulative distribution at `uniform`; in float64, since 150,000 small shares are summed."""
    shares = torch.softmax(logits.double() / sampling.temperature, 0)
    order = None
    if sampling.top_p < 1:
        shares, order = shares.sort(descending=True, stable=True)
        # Keep a token while the mass before it is below top_p: at least the best one stays.
        kept = int((shares.cumsum(0) - shares < sampling.top_p).sum())
        shares = shares[: max(1, kept)]
    heights = shares.cumsum(0)
    target = uniform(sampling.seed, position) * float(heights[-1])
    index = min(int(torch.searchsorted(heights, target, right=True)), len(heights) - 1)
    return index if order is None else int(order[index])


def _described(token: int, logprobs: Tensor, alternatives: int) -> Sampled:
    if not alternatives:
        return Sampled(token, float(logprobs[token]))
    best = logprobs.topk(min(alternatives, len(logprobs)))
    return Sampled(token, float(logprobs[token]), tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True)))
