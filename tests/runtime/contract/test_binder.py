"""The points of the layer, fired: damage is always seen, a lie is refused, and inputs are rebuilt once."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from faults import FaultSpec, Scope, parse_do
from runtime.contract.registry import Contract
from runtime.contract.spec import IOSpec, Layout, TensorFacts, TensorSpec
from runtime.contract.step import STEP, facts_of_work, step_io
from runtime.contract.violation import ContractViolation, Rule
from tests.contract.device.worlds import work
from tests.runtime.contract.stage import ALIGNED, CONTRACT, KEY, Stage, facts

STEP_CONTRACT = Contract(KEY, step_io(tokens_max=64, rows_max=8, blocks_max=16))
SEEN_AS = {
    "shape": {Rule.RANK, Rule.EXTENT, Rule.RANGE, Rule.LAYOUT},
    "dtype": {Rule.DTYPE},
    "stride": {Rule.LAYOUT, Rule.STRIDE},
    "device": {Rule.DEVICE},
}


@pytest.mark.parametrize("word", SEEN_AS)
@given(seed=st.integers(0, 10**6), warm=st.booleans(), n=st.integers(1, 4), w=st.sampled_from([2, 6]))
def test_damage_to_facts_is_always_seen_for_what_it_is(word, seed, warm, n, w):
    stage = Stage()
    if warm:
        stage.binder.check(CONTRACT, facts(n=n, w=w))
    stage.arm(f"contract.bind: corrupt {word}", seed)
    with pytest.raises(ContractViolation) as refused:
        stage.binder.check(CONTRACT, facts(n=n, w=w), step=7)
    assert {one.rule for one in refused.value.violations} & SEEN_AS[word]
    assert stage.fires == ["contract.bind"]
    assert stage.env.marks.total["contract.violation"] == 1


@pytest.mark.parametrize("word", SEEN_AS)
@given(seed=st.integers(0, 10**6), rows=st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_damage_to_the_engines_own_step_is_always_seen(word, seed, rows):
    stage = Stage()
    stage.arm(f"contract.bind: corrupt {word}", seed)
    with pytest.raises(ContractViolation):
        stage.binder.check(STEP_CONTRACT, facts_of_work(work(1, rows)))


def test_where_no_stride_can_show_a_dim_is_added_instead():
    scalar = Contract(KEY, IOSpec("g", (TensorSpec("t", (1,), "int64"),)))
    stage = Stage()
    stage.arm("contract.bind: corrupt stride")
    with pytest.raises(ContractViolation) as refused:
        stage.binder.check(scalar, [TensorFacts("t", (1,), (1,), "int64", "cpu", ALIGNED)])
    assert [one.rule for one in refused.value.violations] == [Rule.RANK]


@given(st.integers(0, 10**6))
def test_an_extent_that_only_this_tensor_gives_is_never_the_one_that_is_damaged(seed):
    """Nobody could tell [n + 1] from a batch with one row more, and the fault would have broken nothing."""
    view = TensorSpec("t", (CONTRACT.io.inputs[0].shape[0],), "int64", layout=Layout.STRIDED)
    stage = Stage()
    stage.arm("contract.bind: corrupt shape", seed)
    with pytest.raises(ContractViolation):
        stage.binder.check(Contract(KEY, IOSpec("g", (view,))), [TensorFacts("t", (3,), (1,), "int64", "cpu", ALIGNED)])


def test_shape_damage_is_not_only_a_wrong_rank():
    seen = set()
    for seed in range(60):
        stage = Stage()
        stage.arm("contract.bind: corrupt shape", seed)
        with pytest.raises(ContractViolation) as refused:
            stage.binder.check(CONTRACT, facts(n=5, w=4))
        seen |= {one.rule for one in refused.value.violations}
    assert seen >= {Rule.RANK, Rule.EXTENT}


def test_the_same_seed_damages_alike():
    def told(seed):
        stage = Stage()
        stage.arm("contract.bind: corrupt shape", seed)
        with pytest.raises(ContractViolation) as refused:
            stage.binder.check(CONTRACT, facts(n=5, w=4))
        return str(refused.value)

    assert told(3) == told(3)
    assert len({told(seed) for seed in range(20)}) > 1


def test_a_lying_cache_is_refused_counted_and_costs_only_the_hit():
    stage = Stage()
    for n in (3, 5):
        stage.binder.check(CONTRACT, facts(n=n, w=4))
    stage.arm("contract.cache: lie", times=3)
    for n in (5, 3, 8):  # two that are kept, one that is new
        assert stage.binder.check(CONTRACT, facts(n=n, w=4)).dims["n"] == n
    assert stage.fires == ["contract.cache"] * 3
    assert stage.env.marks.total["contract.cache_refused"] == stage.binder.cache.refused == 3
    assert stage.env.marks.total["contract.violation"] == 0


@given(st.integers(0, 10**6))
def test_a_lie_can_not_make_a_broken_contract_pass(seed):
    stage = Stage()
    for n in (1, 2, 3):
        stage.binder.check(CONTRACT, facts(n=n, w=4))
    stage.arm("contract.cache: lie", seed)
    with pytest.raises(ContractViolation, match="range"):
        stage.binder.check(CONTRACT, facts(n=3, w=4, lengths=[1, 2, 0]))
    stage.faults.clean()
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
    stage = Stage()
    for graph in ("other", "attend"):
        do = parse_do("contract.bind: corrupt dtype")
        stage.faults.arm([FaultSpec(id=graph, n=0, do=do, scope=Scope(graph=graph))])
        if graph == "other":
            stage.binder.check(CONTRACT, facts(n=3, w=4))
    assert stage.fires == []
    with pytest.raises(ContractViolation):
        stage.binder.check(CONTRACT, facts(n=3, w=4))


class Maker:
    """Makes the inputs of a launch; counts how often."""

    def __init__(self):
        self.made = 0

    def __call__(self):
        self.made += 1
        return self.made, facts(n=3, w=4)


def test_inputs_that_break_the_contract_are_rebuilt_once():
    stage, make = Stage(), Maker()
    stage.arm("contract.bind: corrupt shape", times=1)
    inputs, binding = stage.binder.check_or_rebuild(CONTRACT, make)
    assert (inputs, make.made, binding.dims["n"]) == (2, 2, 3)
    assert dict(stage.env.marks.total) == {"contract.violation": 1, "contract.rebuilt": 1}


def test_inputs_that_break_it_twice_are_refused():
    stage, make = Stage(), Maker()
    stage.arm("contract.bind: corrupt shape", times=2)
    with pytest.raises(ContractViolation):
        stage.binder.check_or_rebuild(CONTRACT, make)
    assert make.made == 2
    assert dict(stage.env.marks.total) == {"contract.violation": 2, "contract.rebuilt": 1}


def test_good_inputs_are_made_once():
    stage, make = Stage(), Maker()
    assert stage.binder.check_or_rebuild(CONTRACT, make)[0] == make.made == 1
    assert not stage.env.marks.total


def test_the_step_contract_reads_a_launch_of_the_engine():
    launch = work(1, [3, 1, 2])
    binding = Stage().binder.check(STEP_CONTRACT, facts_of_work(launch))
    assert binding.contract.io.graph == STEP
    assert binding.dims == {"tokens": 6, "rows": 3}
    assert [(one.name, one.shape) for one in binding.outputs] == [("sampled", (3,))]
