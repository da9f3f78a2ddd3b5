"""Each rule by itself, all at once, and the rank mismatch that a zip lets pass."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.contract.dims import Dim
from runtime.contract.registry import Contract
from runtime.contract.spec import IOSpec, Layout, TensorFacts, TensorSpec
from runtime.contract.validate import bind
from runtime.contract.violation import ContractViolation, Rule, Violation
from tests.runtime.contract.stage import ALIGNED, CONTRACT, KEY, facts, with_one

GOOD = facts(n=5, w=4)


def broken(made, contract=CONTRACT):
    """(tensor, rule) of every violation, in the order told."""
    with pytest.raises(ContractViolation) as refused:
        bind(contract, made)
    return [(one.tensor, one.rule) for one in refused.value.violations]


@given(st.integers(1, 64), st.integers(1, 16), st.randoms(use_true_random=False))
def test_facts_that_keep_the_contract_bind_in_any_order(n, half, rng):
    made = facts(n=n, w=2 * half)
    rng.shuffle(made)
    binding = bind(CONTRACT, made)
    assert binding.dims == {"n": n, "w": 2 * half}


def seeds_validate_input(expected_shape, actual_shape):
    """The seed's check, line by line: -1 is a dynamic dim."""
    for expected, actual in zip(expected_shape, actual_shape):  # noqa: B905
        if expected not in (-1, actual):
            raise ValueError("shape mismatch")
    return True


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.integers(0, 5))
def test_a_rank_mismatch_that_passes_the_seeds_zip_is_refused(shape, cut):
    contract = Contract(KEY, IOSpec("g", (TensorSpec("t", tuple(shape), "int64"),)))
    for wrong in ([*shape, 1], [*shape, 7], shape[: min(cut, len(shape) - 1)]):
        assert seeds_validate_input(shape, wrong)
        made = [TensorFacts("t", tuple(wrong), (1,) * len(wrong), "int64", "cpu", ALIGNED)]
        assert broken(made, contract) == [("t", Rule.RANK)]


@pytest.mark.parametrize("spec", CONTRACT.io.inputs, ids=lambda spec: spec.name)
def test_one_dim_too_many_or_too_few_is_the_rank_of_that_tensor_alone(spec):
    one = next(one for one in GOOD if one.name == spec.name)
    more = with_one(GOOD, spec.name, shape=(*one.shape, 1), strides=(*one.strides, 1))
    fewer = with_one(GOOD, spec.name, shape=one.shape[:-1], strides=one.strides[:-1])
    assert broken(more) == broken(fewer) == [(spec.name, Rule.RANK)]


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
        ("image", {"strides": (48, 16, 4, 1)}, Rule.LAYOUT),
        ("turned", {"strides": (5, 1)}, Rule.LAYOUT),
        ("view", {"strides": (-32, 16, 1)}, Rule.LAYOUT),
        ("view", {"strides": (33, 16, 1)}, Rule.STRIDE),
        ("view", {"strides": (32, 12, 1)}, Rule.STRIDE),
        ("pages", {"shape": (21,)}, Rule.EXTENT),
        ("starts", {"shape": (5,)}, Rule.EXTENT),
        ("image", {"shape": (5, 4, 4, 4), "strides": (64, 1, 16, 4)}, Rule.EXTENT),
        ("ids", {"strides": ()}, Rule.LAYOUT),
    ],
)
def test_each_rule_is_seen_by_itself(name, changes, rule):
    assert broken(with_one(GOOD, name, **changes)) == [(name, rule)]


def test_an_aligned_address_does_not_excuse_rows_that_are_not():
    """float16 [n, 65]: the first row is aligned, the second begins at byte 130."""
    n = Dim("n")
    contract = Contract(KEY, IOSpec("g", (TensorSpec("t", (n, 65), "float16", alignment_bytes=16),)))
    rows = TensorFacts("t", (4, 65), (65, 1), "float16", "cpu", ALIGNED)
    assert broken([rows], contract) == [("t", Rule.STRIDE)]
    assert bind(contract, [rows._replace(shape=(1, 65))]).dims == {"n": 1}  # one row has no next


def test_a_square_transpose_has_the_right_shape_and_the_wrong_layout():
    contract = Contract(KEY, IOSpec("g", (TensorSpec("bsh", (2, 8, 8), "float32"),)))
    turned = TensorFacts("bsh", (2, 8, 8), (64, 1, 8), "float32", "cpu", ALIGNED)
    assert broken([turned], contract) == [("bsh", Rule.LAYOUT)]


@given(st.sampled_from(list(Layout)[:3]), st.tuples(*[st.integers(1, 3)] * 4), st.tuples(*[st.integers(0, 30)] * 4))
def test_dense_layouts_admit_exactly_the_strides_that_reach_each_element_in_order(layout, shape, strides):
    contract = Contract(KEY, IOSpec("g", (TensorSpec("t", shape, "int8", layout=layout),)))
    order = {"rows": (0, 1, 2, 3), "columns": (3, 2, 1, 0), "channels_last": (0, 2, 3, 1)}[layout]
    places = [0]
    for axis in order:
        places = [place + index * strides[axis] for place in places for index in range(shape[axis])]
    made = [TensorFacts("t", shape, strides, "int8", "cpu", ALIGNED)]
    if places == list(range(len(places))):
        bind(contract, made)
    else:
        assert broken(made, contract) == [("t", Rule.LAYOUT)]


def test_a_tensor_without_elements_lies_nowhere():
    contract = Contract(KEY, IOSpec("g", (TensorSpec("t", (Dim("n"), 3), "int64", alignment_bytes=64),)))
    assert bind(contract, [TensorFacts("t", (0, 3), (7, 9), "int64", "cpu", 3)]).dims == {"n": 0}


def test_a_missing_a_doubled_and_a_strange_tensor_are_all_told():
    made = [one for one in GOOD if one.name != "starts"] + [GOOD[0], GOOD[0]._replace(name="stranger")]
    assert broken(made) == [("ids", Rule.PRESENT), ("starts", Rule.PRESENT), ("stranger", Rule.PRESENT)]


def test_without_the_tensor_that_names_a_dim_first_the_others_are_held_against_each_other():
    made = with_one([one for one in GOOD if one.name != "ids"], "starts", shape=(5,))
    assert broken(made) == [("ids", Rule.PRESENT), ("starts", Rule.EXTENT)]


def test_a_dim_out_of_range_is_told_once_where_it_is_first_seen():
    assert broken(facts(n=65, w=4)) == [("ids", Rule.RANGE)]
    assert broken(facts(n=5, w=5)) == [("image", Rule.RANGE)]


def test_one_error_names_graph_tensor_expected_and_got_of_every_violation():
    made = with_one(GOOD, "ids", dtype="int32", device="meta", address=ALIGNED + 1)
    made = with_one(made, "pages", shape=(21,))
    with pytest.raises(ContractViolation) as refused:
        bind(CONTRACT, made)
    assert str(refused.value).split("; ") == [
        'graph "attend", tensor "ids": dtype: expected int64, got int32',
        'graph "attend", tensor "ids": device: expected cpu, got meta',
        f'graph "attend", tensor "ids": address: expected a multiple of 8 bytes, got {ALIGNED + 1:#x}',
        'graph "attend", tensor "pages": extent: expected n*w = 20 (n = 5 by ids[0], w = 4 by image[2]), '
        "got 21 at dim 0 of (21,)",
    ]
    assert (refused.value.http, refused.value.code) == (500, "contract_violation")


@given(st.sets(st.sampled_from(range(7)), min_size=1))
def test_as_many_tensors_are_named_as_are_wrong(wrong):
    made = [one._replace(device="meta") if at in wrong else one for at, one in enumerate(GOOD)]
    assert broken(made) == [(GOOD[at].name, Rule.DEVICE) for at in sorted(wrong)]


def test_a_dim_that_is_given_is_held_in_inputs_and_in_outputs():
    n, w = Dim("n"), Dim("w")
    io = IOSpec("g", (TensorSpec("t", (n, w), "int64"),), (TensorSpec("o", (n,), "int64"),), given=(n,))
    contract, good = Contract(KEY, io), TensorFacts("t", (5, 3), (3, 1), "int64", "cpu", ALIGNED)
    assert bind(contract, [good], (5,)).dims == {"n": 5, "w": 3}
    with pytest.raises(ContractViolation, match=r"expected n = 6 \(by the step\), got 5"):
        bind(contract, [good], (6,))
    out = TensorFacts("o", (5,), (1,), "int64", "cpu", ALIGNED)
    bind(contract, [out], (5,), outputs=True)
    with pytest.raises(ContractViolation, match="got 5"):
        bind(contract, [out], (4,), outputs=True)


def test_an_error_without_a_violation_is_our_mistake():
    with pytest.raises(AssertionError):
        ContractViolation([])
    assert ContractViolation([Violation("g", "t", Rule.RANK, "1", "2", row=0)]).rows == (0,)
