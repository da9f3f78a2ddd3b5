"""The token that a request must get from its logits, and how near another one was.

greedy     the largest logit
sampled    u = the number of (seed, position) in [0, 1); the first token whose cumulative share passes u times the
           whole. Shares are those of logits / temperature. Where `top_p` is below 1, tokens go by falling share, and a
           token is kept while the shares before it stay below `top_p`.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from harness.oracle.checkpoint import Reals


@dataclass(frozen=True)
class Sampling:
    """The sampling options of a request; temperature 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


GREEDY = Sampling()


def choose(logits: Reals, sampling: Sampling, position: int) -> tuple[int, float]:
    """The token at index `position` of a sequence, from `logits` [vocabulary], and its margin: a smaller change of the
    logits gives no other token."""
    if sampling.temperature == 0:
        second, best = np.partition(logits, -2)[-2:]
        return int(logits.argmax()), float(best - second)
    shares, tokens = allowed(logits, sampling)
    heights = shares.cumsum()
    place, last = drawn(sampling.seed, position) * heights[-1], len(heights) - 1
    index = min(int((heights <= place).sum()), last)
    edges = ([heights[index - 1]] if index else []) + ([heights[index]] if index < last else [])
    margins = [abs(place - edge) for edge in edges]
    if sampling.top_p < 1:
        ordered = np.log(shares)
        margins += [abs(ordered[index] - ordered[at]) for at in (index - 1, index + 1) if 0 <= at <= last]
        margins.append(_cut_margin(logits, sampling))
    # A change of each logit by d moves a share of a sum, and a logarithm of a share, by at most 2 d / temperature.
    return int(tokens[index]), float(min(margins, default=np.inf)) * sampling.temperature


def allowed(logits: Reals, sampling: Sampling) -> tuple[Reals, np.ndarray]:
    """The shares of the tokens that can be drawn, in the order in which they are added up, and these tokens."""
    shares = _shares(logits, sampling)
    if sampling.top_p >= 1:
        return shares, np.arange(len(shares))
    order = np.argsort(-shares, kind="stable")
    before = np.cumsum(shares[order]) - shares[order]
    kept = order[: max(1, int((before < sampling.top_p).sum()))]
    return shares[kept], kept


def drawn(seed: int, position: int) -> float:
    """The number of a seed and a position: the upper 53 of the 64 bits of a BLAKE2b digest."""
    digest = hashlib.blake2b(f"{seed}/{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53


def _shares(logits: Reals, sampling: Sampling) -> Reals:
    weights = np.exp((logits - logits.max()) / sampling.temperature)
    shares: Reals = weights / weights.sum()
    return shares


def _cut_margin(logits: Reals, sampling: Sampling) -> float:
    """How near `top_p` is to keeping one token more or less."""
    sums = np.cumsum(np.sort(_shares(logits, sampling))[::-1])
    return float(np.abs(sums[:-1] - sampling.top_p).min())
