"""The arithmetic of dims is that of whole numbers."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.contract.dims import Dim, Extent, extent

N, M, W = Dim("n"), Dim("m"), Dim("w")
VALUES = st.fixed_dictionaries({"n": st.integers(0, 50), "m": st.integers(0, 50), "w": st.integers(0, 50)})
FORMULAS = st.recursive(
    st.sampled_from([N, M, W]) | st.integers(-5, 5),
    lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner),
    max_leaves=6,
)


def made(formula, values=None):
    """The formula with dims, or, given values, with numbers."""
    if not isinstance(formula, tuple):
        return values[formula.name] if isinstance(formula, Dim) and values else formula
    sign, left, right = formula[0], made(formula[1], values), made(formula[2], values)
    return left + right if sign == "+" else left - right if sign == "-" else left * right


@given(FORMULAS, VALUES)
def test_a_formula_has_the_value_that_numbers_in_its_place_would_have(formula, values):
    assert extent(made(formula)).value(values) == made(formula, values)


@given(FORMULAS, FORMULAS)
def test_sums_and_products_that_are_equal_are_the_same_value(left, right):
    left, right = made(left), made(right)
    assert extent(left + right) == extent(right + left)
    assert extent(left * right) == extent(right * left)
    assert extent(left * (right + 1)) == extent(left * right + left)


@given(FORMULAS, VALUES, st.sampled_from([N, M, W]))
def test_solving_for_a_dim_gives_back_its_value(formula, values, dim):
    one = extent(made(formula))
    if one.gives(dim):
        assert one.solved(dim, one.value(values), values) == values[dim.name]


def test_solving_refuses_what_no_whole_number_makes():
    assert (2 * N + 1).solved(N, 15, {}) == 7
    assert (2 * N + 1).solved(N, 14, {}) is None


def test_a_dim_beside_another_or_squared_is_not_given_by_the_formula():
    assert not extent(N * W).gives(N)
    assert not extent(N * N).gives(N)
    assert not extent(N + N * W).gives(N)
    assert extent(3 * N + W * M).gives(N)


def test_what_cancels_is_gone():
    assert extent(N - N) == extent(0) == Extent(())
    assert extent(N + W - N).dims == (W,)


@pytest.mark.parametrize(
    ("size", "text"),
    [(2 * N, "2*n"), (N + 1, "n + 1"), (W * N, "n*w"), (N - W - 3, "n - w - 3"), (N - N, "0"), (1 - 2 * N, "-2*n + 1")],
)
def test_a_formula_reads_as_it_is_written(size, text):
    assert str(size) == text


def test_a_dim_with_several_mistakes_names_them_all():
    with pytest.raises(ValueError, match=r'dim "a b": .*one word.*min is -1.*max -2 is below min -1.*multiple_of is 0'):
        Dim("a b", min=-1, max=-2, multiple_of=0)


@given(st.integers(-3, 40))
def test_a_dim_admits_multiples_in_its_range_and_nothing_else(value):
    assert Dim("n", min=4, max=32, multiple_of=4).admits(value) == (value in range(4, 33, 4))
