"""The points of the layer, fired: damage is always seen, a lie is refused, and inputs are rebuilt once."""

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from faults import FaultSpec, Scope, parse_do
from runtime.contract.dims import Dim
from runtime.contract.spec import Contract, TensorFacts, TensorSpec
from runtime.contract.validate import violations_of
from runtime.contract.violation import ContractViolation, Rule
from tests.runtime.contract.stage import ALIGNED, CONTRACT, NAMES, Stage, facts, with_one

SEEN_AS = {
    "rank": {Rule.RANK},
    "shape": {Rule.EXTENT, Rule.RANGE},
    "dtype": {Rule.DTYPE},
    "stride": {Rule.LAYOUT, Rule.STRIDE},
    "device": {Rule.DEVICE},
    "align": {Rule.ADDRESS},
}
REFUSED = ("rank", "shape", "device")


@pytest.mark.parametrize("word", SEEN_AS)
@given(seed=st.integers(0, 10**6), warm=st.booleans(), n=st.integers(2, 4), w=st.sampled_from([2, 6]))
def test_damage_is_always_seen_for_what_it_is_and_repaired_or_refused(word, seed, warm, n, w):
    stage, made = Stage(), facts(n=n, w=w)
    if warm:
        stage.cross(made)
    stage.arm(f"contract.bind: corrupt {word}", seed, times=1)
    try:
        passed = stage.cross(made)
    except ContractViolation as violation:
        refused = {one.rule for one in violation.violations}
    else:
        refused = set()
    if refused:
        assert refused & SEEN_AS[word]
        assert word in (*REFUSED, "dtype")
        assert dict(stage.env.counters.total) == {"contract.violation": 1}
    else:
        assert word not in REFUSED
        assert violations_of(CONTRACT, passed) == []
        mended = [name for name, one, before in zip(NAMES, passed, made, strict=True) if one != before]
        assert len(mended) == 1
        mark = "contract.cast" if word == "dtype" else "contract.copied"
        assert dict(stage.env.counters.total) == {"contract.violation": 1, mark: 1}
    assert stage.fires == ["contract.bind"]


def test_tensors_that_keep_the_contract_pass_as_they_are():
    stage, made = Stage(), tuple(facts(n=3, w=4))
    assert stage.binder.cross(CONTRACT, made) is made
    assert not stage.env.counters.total


@pytest.mark.parametrize(
    ("name", "changes", "mark"),
    [
        ("ids", {"strides": (2,)}, "contract.copied"),
        ("ids", {"address": ALIGNED + 4}, "contract.copied"),
        ("ids", {"dtype": "int32"}, "contract.cast"),
        ("ids", {"dtype": "int16", "strides": (2,)}, "contract.cast"),
        ("ids", {"dtype": "float32"}, None),
        ("ids", {"dtype": "uint64"}, None),
        ("gate_up", {"dtype": "float32"}, None),
        ("image", {"strides": (48, 1, 12, 3)}, "contract.copied"),
        ("view", {"address": ALIGNED + 8}, "contract.copied"),
        ("ids", {"device": "meta"}, None),
    ],
)
def test_only_what_a_copy_mends_without_changing_a_value_is_mended(name, changes, mark):
    stage, made = Stage(), with_one(facts(n=3, w=4), name, **changes)
    if mark is None:
        with pytest.raises(ContractViolation):
            stage.cross(made)
        assert dict(stage.env.counters.total) == {"contract.violation": 1}
    else:
        assert violations_of(CONTRACT, stage.cross(made)) == []
        assert dict(stage.env.counters.total) == {"contract.violation": 1, mark: 1}


def test_two_wrong_tensors_are_both_mended_and_one_beyond_help_refuses_all():
    stage, made = Stage(), with_one(facts(n=3, w=4), "ids", strides=(2,))
    stage.cross(with_one(made, "starts", dtype="int32"))
    assert dict(stage.env.counters.total) == {"contract.violation": 1, "contract.copied": 1, "contract.cast": 1}
    with pytest.raises(ContractViolation) as refused:
        stage.cross(with_one(made, "starts", device="meta"))
    assert {one.tensor for one in refused.value.violations} == {"ids", "starts"}


def test_what_is_written_in_place_is_never_replaced_by_a_copy():
    spec = TensorSpec("kv", (4, 4), "float32", in_place=True)
    stage, whole = Stage(), TensorFacts((4, 4), (8, 2), "float32", "cpu", ALIGNED)
    with pytest.raises(ContractViolation):
        stage.cross([whole], Contract("g", (spec,)))
    assert not stage.env.counters.total["contract.copied"]


def test_where_no_stride_can_show_a_dim_is_added_instead():
    scalar = Contract("g", (TensorSpec("t", (1,), "int64"),))
    stage = Stage()
    stage.arm("contract.bind: corrupt stride")
    with pytest.raises(ContractViolation) as refused:
        stage.cross([TensorFacts((1,), (1,), "int64", "cpu", ALIGNED)], scalar)
    assert [one.rule for one in refused.value.violations] == [Rule.RANK]


@given(st.integers(0, 10**6))
def test_an_extent_that_only_this_tensor_gives_is_never_the_one_that_is_damaged(seed):
    """One row more is a batch of another size, and the fault would have broken nothing."""
    view = TensorSpec("t", (CONTRACT.inputs[0].shape[0],), "int64")
    stage = Stage()
    stage.arm("contract.bind: corrupt shape", seed)
    with pytest.raises(ContractViolation):
        stage.cross([TensorFacts((3,), (1,), "int64", "cpu", ALIGNED)], Contract("g", (view,)))


def test_an_extent_that_the_step_gives_is_damaged_and_seen():
    n = Dim("n")
    contract = Contract("g", (TensorSpec("t", (n,), "int64"),), given=(n,))
    stage = Stage()
    stage.arm("contract.bind: corrupt shape")
    with pytest.raises(ContractViolation, match=r"expected n = 3 \(by the step\), got 4"):
        stage.binder.cross(contract, (TensorFacts((3,), (1,), "int64", "cpu", ALIGNED),), (3,))


def test_the_same_seed_damages_alike():
    def told(seed):
        stage = Stage()
        stage.arm("contract.bind: corrupt shape", seed)
        with pytest.raises(ContractViolation) as refused:
            stage.cross(facts(n=5, w=4))
        return str(refused.value)

    assert told(3) == told(3)
    assert len({told(seed) for seed in range(20)}) > 1


def test_a_lying_cache_is_refused_counted_and_costs_only_the_hit():
    stage = Stage()
    for n in (3, 5):
        stage.binder.check(CONTRACT, facts(n=n, w=4))
    stage.arm("contract.cache: lie", times=3)
    for n in (5, 3, 8):  # two that are kept, one that is new
        stage.binder.check(CONTRACT, facts(n=n, w=4))
    assert stage.fires == ["contract.cache"] * 3
    assert stage.env.counters.total["contract.cache_refused"] == stage.binder.cache.refused == 3
    assert stage.env.counters.total["contract.violation"] == 0


@given(st.integers(0, 10**6))
def test_a_lie_can_not_make_a_broken_contract_pass(seed):
    stage = Stage()
    for n in (1, 2, 3):
        stage.binder.check(CONTRACT, facts(n=n, w=4))
    stage.arm("contract.cache: lie", seed)
    with pytest.raises(ContractViolation, match="range"):
        stage.binder.check(CONTRACT, facts(n=65, w=4))


def test_with_nothing_to_lie_with_the_cache_is_not_crossed():
    stage = Stage()
    stage.arm("contract.cache: lie")
    stage.binder.check(CONTRACT, facts(n=3, w=4))
    stage.binder.check(CONTRACT, facts(n=3, w=4))
    assert stage.fires == []
    assert stage.faults.states()[0].hits == 0


def test_faults_are_scoped_to_their_graph():
    stage, layer = Stage(), replace(CONTRACT, graph="layer")
    for graph in ("head", "layer"):
        do = parse_do("contract.bind: corrupt device")
        stage.faults.arm([FaultSpec(id=graph, n=0, do=do, scope=Scope(graph=graph))])
        if graph == "head":
            stage.cross(facts(layer, n=3, w=4), layer)
    assert stage.fires == []
    with pytest.raises(ContractViolation):
        stage.cross(facts(layer, n=3, w=4), layer)
