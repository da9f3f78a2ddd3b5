"""Draws belong to (seed, position); greedy, temperature and top-p mean what they say."""

import math
from collections.abc import Sequence

import pytest
import torch

from runtime.core.work import Sampled, Sampling
from runtime.models.sampler import choose, describe, uniform


def logits(rows: int, words: int = 40) -> torch.Tensor:
    return torch.randn((rows, words), generator=torch.Generator().manual_seed(9))


def sample(lines: torch.Tensor, samplings: Sequence[Sampling], positions: Sequence[int]) -> list[Sampled]:
    return describe(choose(lines, samplings, positions), lines, samplings)


def test_a_draw_does_not_depend_on_the_batch_or_its_order() -> None:
    lines = logits(6)
    samplings = [Sampling(1.0, 0.9 if row % 2 else 1.0, seed=row) for row in range(6)]
    positions = [3, 8, 1, 5, 5, 90]
    together = sample(lines, samplings, positions)
    order = [4, 2, 0, 5, 1, 3]
    shuffled = sample(lines[order], [samplings[row] for row in order], [positions[row] for row in order])
    for place, row in enumerate(order):
        assert shuffled[place] == together[row]
        assert sample(lines[row : row + 1], [samplings[row]], [positions[row]]) == [together[row]]


def test_seed_and_position_both_change_the_draw() -> None:
    draws = {uniform(seed, position) for seed in range(50) for position in range(50)}
    assert len(draws) == 2500
    assert all(0 <= draw < 1 for draw in draws)


def test_draws_follow_the_distribution() -> None:
    line = torch.tensor([0.0, math.log(2), math.log(5), -torch.inf])
    count = 4000
    drawn = sample(line.expand(count, 4), [Sampling(1.0, seed=3)] * count, range(count))
    shares = [sum(each.token == token for each in drawn) / count for token in range(4)]
    assert shares == pytest.approx([1 / 8, 2 / 8, 5 / 8, 0], abs=0.03)


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    line = torch.log(torch.tensor([0.1, 0.5, 0.3, 0.1]))

    def seen(top_p: float) -> set[int]:
        drawn = sample(line.expand(400, 4), [Sampling(1.0, top_p, seed=1)] * 400, range(400))
        return {each.token for each in drawn}

    assert seen(0.4) == {1}
    assert seen(0.79) == {1, 2}
    assert seen(1.0) == {0, 1, 2, 3}
    assert seen(1e-9) == {1}


def test_a_cold_temperature_is_greedy_and_zero_is_exactly_so() -> None:
    lines = logits(20)
    best = lines.argmax(1).tolist()
    for temperature in (0.0, 1e-4):
        drawn = sample(lines, [Sampling(temperature, seed=row) for row in range(20)], range(20))
        assert [each.token for each in drawn] == best


def test_logprobs_are_raw_and_only_for_those_who_asked() -> None:
    lines = logits(3)
    samplings = [Sampling(), Sampling(logprobs=0), Sampling(2.0, seed=1, logprobs=3)]
    plain, chosen, top = sample(lines, samplings, [0, 0, 0])
    wanted = torch.log_softmax(lines, 1)
    assert plain.logprob is None
    assert chosen.logprob == pytest.approx(float(wanted[1, chosen.token]))
    assert chosen.top == ()
    assert top.logprob == pytest.approx(float(wanted[2, top.token]))
    assert [token for token, _ in top.top] == wanted[2].topk(3).indices.tolist()
