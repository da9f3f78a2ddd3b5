"""The unifier against brute force: it accepts exactly what some whole numbers in range make true."""

from itertools import product

import hypothesis.strategies as st
from hypothesis import given, settings

from runtime.contract.dims import Dim, extent
from runtime.contract.unify import Equation, unify
from runtime.contract.violation import Rule

N, M = Dim("n", min=1, max=9), Dim("m", min=2, max=8, multiple_of=2)
FORMULAS = [N, M, 2 * N, 3 * M, N * M, 2 * N * M, N * N, 4]


def conflicts_of(formulas, gots, given=None):
    return unify(equations(formulas, gots), given or {})[1]


def equations(formulas, gots):
    return [
        Equation("t", axis, extent(formula), got)
        for axis, (formula, got) in enumerate(zip(formulas, gots, strict=True))
    ]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(FORMULAS), max_size=5), st.sampled_from([N, 2 * N, 3 * N]), st.data())
def test_accepts_exactly_what_some_numbers_make_true(formulas, of_n, data):
    formulas = data.draw(st.permutations([*formulas, of_n, M]))
    n, m = data.draw(st.integers(1, 9)), data.draw(st.sampled_from([2, 4, 6, 8]))
    true = [extent(formula).value({"n": n, "m": m}) for formula in formulas]
    gots = [got + data.draw(st.sampled_from([0, 0, 0, 1, -1, 2])) for got in true]
    solutions = [
        values
        for values in ({"n": n, "m": m} for n, m in product(range(1, 10), range(2, 9, 2)))
        if [extent(formula).value(values) for formula in formulas] == gots
    ]
    values, conflicts = unify(equations(formulas, gots), {})
    assert bool(solutions) == (not conflicts)
    if solutions:
        assert solutions == [values]


def test_a_formula_is_at_fault_and_not_the_plain_dim_whichever_comes_first():
    for order in ([2 * N, N], [N, 2 * N]):
        gots = [15 if one != N else 7 for one in order]
        (conflict,) = conflicts_of(order, gots)
        assert conflict.equation.got == 15
        assert conflict.rule is Rule.EXTENT
        assert conflict.expected.startswith("2*n = 14 (n = 7 by t[")


def test_a_product_waits_until_both_of_its_dims_are_known():
    assert not conflicts_of([N * M, M, 2 * N], [12, 4, 6])
    (conflict,) = conflicts_of([N * M, M, 2 * N], [13, 4, 6])
    assert conflict.expected == "m*n = 12 (m = 4 by t[1], n = 3 by t[2])"


def test_a_number_of_its_own_is_told_as_out_of_range_only_once():
    conflicts = conflicts_of([N, N, 2 * N], [99, 99, 198])
    assert [(one.rule, one.expected) for one in conflicts] == [(Rule.RANGE, "n in 1..9")]


def test_no_multiple_is_out_of_range():
    (conflict,) = conflicts_of([M], [5])
    assert (conflict.rule, conflict.expected) == (Rule.RANGE, "m in 2..8, a multiple of 2")


def test_what_nothing_determines_gets_no_value_and_is_no_conflict():
    assert unify(equations([N * M], [12]), {}) == ({}, [])


def test_given_values_bind_and_are_named_as_the_steps():
    (conflict,) = conflicts_of([N], [4], {"n": 3})
    assert conflict.expected == "n = 3 (by the step)"
