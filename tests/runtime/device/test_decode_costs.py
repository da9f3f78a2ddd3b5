"""Prices of a stretch of decode launches are those of each launch by itself, to the bit."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.device.costs import CostTable, Priced
from runtime.device.decode_costs import FLOOR_NS, STEPS_MAX, Jitter
from tests.runtime.device.test_costs import TABLE
from tests.runtime.device.test_hash_model import work

POINTS = st.lists(st.integers(1, 5000), min_size=1, max_size=5, unique=True).map(sorted)
STEPS = st.integers(0, 1 << 50) | st.builds(lambda at, off: at * 4096 + off, st.integers(1, 1000), st.integers(-64, 0))
"""Some of them so that a stretch goes past the end of what is worked out at once."""
NS = st.integers(0, 3_000) | st.integers(0, 2_000_000_000)


@st.composite
def tables(draw: st.DrawFn) -> CostTable:
    rows, contexts = draw(POINTS), draw(POINTS)
    ns = draw(st.lists(NS, min_size=len(rows) * len(contexts), max_size=len(rows) * len(contexts)))
    return dataclasses.replace(
        TABLE,
        decode_rows=tuple(rows),
        decode_context=tuple(contexts),
        decode_ns=tuple(tuple(ns[at * len(contexts) : (at + 1) * len(contexts)]) for at in range(len(rows))),
        jitter=draw(st.floats(0, 0.99)),
    )


def one_by_one(
    priced: Priced, step: int, rows: int, context_sum: int, at_ns: int, most: int, until_ns: int | None, late_ns: int
) -> list[int]:
    ends: list[int] = []
    for at in range(most):
        cost_ns = priced.decode_ns(step + at, rows, context_sum + at * rows)
        if cost_ns >= late_ns:
            break
        at_ns += cost_ns
        ends.append(at_ns)
        if until_ns is not None and at_ns > until_ns:
            break
    return ends


@given(data=st.data(), table=tables(), seed=st.integers(-(1 << 63), 1 << 70))
def test_a_stretch_costs_what_its_launches_cost_one_by_one(data, table, seed):
    priced, fresh = Priced(table, seed), Priced(table, seed)
    for _ in range(data.draw(st.integers(1, 3), "stretches")):
        step = data.draw(STEPS, "step")
        rows = data.draw(st.integers(1, 70), "rows")
        context_sum = data.draw(st.integers(rows, 6000 * rows), "context_sum")
        at_ns = data.draw(st.integers(0, 1 << 60), "at_ns")
        most = data.draw(st.integers(1, 64) | st.integers(1, STEPS_MAX), "most")
        whole = one_by_one(fresh, step, rows, context_sum, at_ns, most, None, 1 << 62)
        beside = st.builds(int.__add__, st.sampled_from([at_ns, *whole]), st.integers(-2, 2))
        until_ns = data.draw(st.none() | beside, "until_ns")
        costs = [end - begin for begin, end in zip([at_ns, *whole], whole, strict=False)]
        late_ns = data.draw(st.just(1 << 62) | st.sampled_from(costs), "late_ns")
        asked = (step, rows, context_sum, at_ns, most, until_ns, late_ns)
        assert priced.decodes_ns(*asked) == one_by_one(fresh, *asked)


@given(seed=st.integers(0, (1 << 64) - 1), step=STEPS, n=st.integers(1, STEPS_MAX))
def test_jitter_of_many_steps_is_that_of_each(seed, step, n):
    jitter = Jitter(seed, 0.3)
    assert jitter.factors(step, n) == [jitter.factor(step + at) for at in range(n)]


def test_a_cost_between_two_nanoseconds_goes_to_the_even_one():
    halves = dataclasses.replace(TABLE, jitter=0.0, decode_rows=(1, 3), decode_ns=((2000, 3001), (2001, 3004)))
    priced = Priced(halves, 1)
    for context, even in ((10, 2000), (100, 3002)):  # 2000.5 and 3002.5
        assert (
            priced.decodes_ns(1, 2, 2 * context, 0, 1, None, 1 << 60) == [even] == [priced.decode_ns(1, 2, 2 * context)]
        )


def test_a_stretch_has_an_end():
    with pytest.raises(AssertionError, match="longer than"):
        Priced(TABLE, 1).decodes_ns(1, 1, 10, 0, STEPS_MAX + 1, None, 1 << 60)


def test_a_curve_is_worked_out_again_after_it_was_let_go(monkeypatch):
    monkeypatch.setattr("runtime.device.costs._CURVES_MAX", 2)
    priced = Priced(TABLE, 1)
    first = [priced.decodes_ns(1, rows, 10 * rows, 0, 9, None, 1 << 60) for rows in range(1, 8)]
    assert first == [priced.decodes_ns(1, rows, 10 * rows, 0, 9, None, 1 << 60) for rows in range(1, 8)]
    assert len(priced._curves) <= 2


def test_a_mixed_launch_costs_what_the_table_says_of_its_parts():
    plain, table = dataclasses.replace(TABLE, jitter=0.0), list(range(8))
    mixed = work([([5, 6, 7], 0, [0]), ([5], 20, table), ([5], 30, table)])
    assert Priced(plain, 1).cost_ns(mixed) == plain.launch_cost_ns(3, 2, 26)
    assert Priced(plain, 1).cost_ns(work([([5, 6, 7], 0, [0])])) == max(FLOOR_NS, plain.launch_cost_ns(3, 0, 0))
