"""Each rule by itself, all at once, and the rank mismatch that a zip lets pass."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.contract.dims import Dim
from runtime.contract.spec import Contract, TensorFacts, TensorSpec
from runtime.contract.validate import violations_of
from runtime.contract.violation import ContractViolation, Rule, Violation
from tests.runtime.contract.stage import ALIGNED, CONTRACT, NAMES, facts, with_one

GOOD = facts(n=5, w=4)


def broken(made, contract=CONTRACT):
    """(tensor, rule) of every violation, in the order told."""
    return [(one.tensor, one.rule) for one in violations_of(contract, made)]


@given(st.integers(1, 64), st.integers(1, 16))
def test_facts_that_keep_the_contract_have_no_violation(n, half):
    assert not violations_of(CONTRACT, facts(n=n, w=2 * half))


def seeds_validate_input(expected_shape, actual_shape):
    """The seed's check, line by line: -1 is a dynamic dim."""
    for expected, actual in zip(expected_shape, actual_shape):  # noqa: B905
        if expected not in (-1, actual):
            raise ValueError("shape mismatch")
    return True


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.integers(0, 5))
def test_a_rank_mismatch_that_passes_the_seeds_zip_is_refused(shape, cut):
    contract = Contract("g", (TensorSpec("t", tuple(shape), "int64"),))
    for wrong in ([*shape, 1], [*shape, 7], shape[: min(cut, len(shape) - 1)]):
        assert seeds_validate_input(shape, wrong)
        made = [TensorFacts(tuple(wrong), (1,) * len(wrong), "int64", "cpu", ALIGNED)]
        assert broken(made, contract) == [("t", Rule.RANK)]


@pytest.mark.parametrize("name", NAMES)
def test_one_dim_too_many_or_too_few_is_the_rank_of_that_tensor_alone(name):
    one = GOOD[NAMES.index(name)]
    more = with_one(GOOD, name, shape=(*one.shape, 1), strides=(*one.strides, 1))
    fewer = with_one(GOOD, name, shape=one.shape[:-1], strides=one.strides[:-1])
    assert broken(more) == broken(fewer) == [(name, Rule.RANK)]


@pytest.mark.parametrize(
    ("name", "changes", "rule"),
    [
        ("ids", {"dtype": "int32"}, Rule.DTYPE),
        ("gate_up", {"dtype": "bfloat16"}, Rule.DTYPE),
        ("ids", {"device": "cuda:0"}, Rule.DEVICE),
        ("ids", {"address": ALIGNED + 4}, Rule.ADDRESS),
        ("view", {"address": ALIGNED + 8}, Rule.ADDRESS),
        ("ids", {"strides": (2,)}, Rule.LAYOUT),
        ("gate_up", {"strides": (1, 6)}, Rule.LAYOUT),
        ("image", {"strides": (48, 1, 12, 3)}, Rule.LAYOUT),
        ("view", {"strides": (-32, 16, 1)}, Rule.LAYOUT),
        ("pages", {"shape": (21,)}, Rule.EXTENT),
        ("starts", {"shape": (5,)}, Rule.EXTENT),
        ("image", {"shape": (5, 4, 4, 4), "strides": (64, 16, 4, 1)}, Rule.EXTENT),
        ("ids", {"strides": ()}, Rule.LAYOUT),
    ],
)
def test_each_rule_is_seen_by_itself(name, changes, rule):
    assert broken(with_one(GOOD, name, **changes)) == [(name, rule)]


def test_an_aligned_address_does_not_excuse_rows_that_are_not():
    """float16 [n, 65]: the first row is aligned, the second begins at byte 130."""
    n = Dim("n")
    contract = Contract("g", (TensorSpec("t", (n, 65), "float16", alignment_bytes=16),))
    rows = TensorFacts((4, 65), (65, 1), "float16", "cpu", ALIGNED)
    assert broken([rows], contract) == [("t", Rule.STRIDE)]
    assert not broken([rows._replace(shape=(1, 65))], contract)  # one row has no next


def test_a_square_transpose_has_the_right_shape_and_the_wrong_layout():
    contract = Contract("g", (TensorSpec("bsh", (2, 8, 8), "float32"),))
    turned = TensorFacts((2, 8, 8), (64, 1, 8), "float32", "cpu", ALIGNED)
    assert broken([turned], contract) == [("bsh", Rule.LAYOUT)]


@given(st.tuples(*[st.integers(1, 3)] * 4), st.tuples(*[st.integers(0, 30)] * 4))
def test_only_strides_that_reach_each_element_in_order_are_admitted(shape, strides):
    contract = Contract("g", (TensorSpec("t", shape, "int8"),))
    places = [0]
    for axis in range(4):
        places = [place + index * strides[axis] for place in places for index in range(shape[axis])]
    dense = places == list(range(len(places)))
    made = [TensorFacts(shape, strides, "int8", "cpu", ALIGNED)]
    assert broken(made, contract) == ([] if dense else [("t", Rule.LAYOUT)])


def test_a_tensor_without_elements_lies_nowhere():
    contract = Contract("g", (TensorSpec("t", (Dim("n"), 3), "int64", alignment_bytes=64),))
    assert not broken([TensorFacts((0, 3), (7, 9), "int64", "cpu", 3)], contract)


def test_a_dim_out_of_range_is_told_once_where_it_is_first_seen():
    assert broken(facts(n=65, w=4)) == [("ids", Rule.RANGE)]
    assert broken(facts(n=5, w=5)) == [("image", Rule.RANGE)]


def test_one_error_names_graph_tensor_expected_and_got_of_every_violation():
    made = with_one(GOOD, "ids", dtype="int32", device="meta", address=ALIGNED + 1)
    made = with_one(made, "pages", shape=(21,))
    error = ContractViolation(violations_of(CONTRACT, made))
    assert str(error).split("; ") == [
        'graph "attend", tensor "ids": dtype: expected int64, got int32',
        'graph "attend", tensor "ids": device: expected cpu, got meta',
        f'graph "attend", tensor "ids": address: expected a multiple of 8 bytes, got {ALIGNED + 1:#x}',
        'graph "attend", tensor "pages": extent: expected n*w = 20 (n = 5 by ids[0], w = 4 by image[2]), '
        "got 21 at dim 0 of (21,)",
    ]
    assert (error.http, error.code) == (500, "contract_violation")


@given(st.sets(st.sampled_from(range(6)), min_size=1))
def test_as_many_tensors_are_named_as_are_wrong(wrong):
    made = [one._replace(device="meta") if at in wrong else one for at, one in enumerate(GOOD)]
    assert broken(made) == [(NAMES[at], Rule.DEVICE) for at in sorted(wrong)]


def test_a_tensor_too_few_is_our_mistake():
    with pytest.raises(ValueError):
        violations_of(CONTRACT, GOOD[:-1])


def test_a_dim_that_is_given_is_held_in_inputs_and_in_outputs():
    n, w = Dim("n"), Dim("w")
    contract = Contract("g", (TensorSpec("t", (n, w), "int64"),), (TensorSpec("o", (n,), "int64"),), given=(n,))
    good, out = [TensorFacts((5, 3), (3, 1), "int64", "cpu", ALIGNED)], [TensorFacts((5,), (1,), "int64", "cpu", 0)]
    assert not violations_of(contract, good, (5,))
    (violation,) = violations_of(contract, good, (6,))
    assert "expected n = 6 (by the step), got 5" in str(violation)
    assert not violations_of(contract, out, (5,), outputs=True)
    (violation,) = violations_of(contract, out, (4,), outputs=True)
    assert "got 5" in str(violation)


def test_an_error_without_a_violation_is_our_mistake():
    with pytest.raises(AssertionError):
        ContractViolation([])
    assert ContractViolation([Violation("g", "t", Rule.RANK, "1", "2", row=0)]).rows == (0,)
