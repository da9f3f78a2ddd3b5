"""The arithmetic of dims is that of whole numbers."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.contract.dims import Dim, extent

N, M, W = Dim("n"), Dim("m"), Dim("w")
VALUES = st.fixed_dictionaries({"n": st.integers(0, 50), "m": st.integers(0, 50), "w": st.integers(0, 50)})
FORMULAS = st.recursive(
    st.sampled_from([N, M, W]) | st.integers(1, 5), lambda inner: st.tuples(inner, inner), max_leaves=6
)


def made(formula, values=None):
    """The product with dims, or, given values, with numbers."""
    if not isinstance(formula, tuple):
        return values[formula.name] if isinstance(formula, Dim) and values else formula
    return made(formula[0], values) * made(formula[1], values)


@given(FORMULAS, VALUES)
def test_a_formula_has_the_value_that_numbers_in_its_place_would_have(formula, values):
    assert extent(made(formula)).value(values) == made(formula, values)


@given(FORMULAS, FORMULAS)
def test_products_that_are_equal_are_the_same_value(left, right):
    left, right = made(left), made(right)
    assert extent(left * right) == extent(right * left)
    assert extent(left * right * 2) == extent(left * 2) * right


def test_a_dim_times_nothing_is_our_mistake():
    with pytest.raises(AssertionError):
        N * 0
    assert extent(0).value({}) == 0


@pytest.mark.parametrize(("size", "text"), [(2 * N, "2*n"), (N * 1, "n"), (W * N, "n*w"), (3 * W * N * N, "3*n*n*w")])
def test_a_formula_reads_as_it_is_written(size, text):
    assert str(size) == text


def test_a_dim_with_several_mistakes_names_them_all():
    with pytest.raises(ValueError, match=r'dim "a b": .*one word.*min is -1.*max -2 is below min -1.*multiple_of is 0'):
        Dim("a b", min=-1, max=-2, multiple_of=0)


@given(st.integers(-3, 40))
def test_a_dim_admits_multiples_in_its_range_and_nothing_else(value):
    assert Dim("n", min=4, max=32, multiple_of=4).admits(value) == (value in range(4, 33, 4))
