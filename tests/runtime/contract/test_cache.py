"""The key changes with every field that matters, and an entry is never served to another key."""

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.contract.cache import ShapeCache, signature_of
from runtime.contract.spec import ContractKey
from runtime.contract.validate import violations_of
from runtime.contract.violation import ContractViolation
from tests.runtime.contract.stage import ALIGNED, CONTRACT, KEY, NAMES, Stage, facts, with_one

GOOD = facts(n=5, w=4)
SIGNATURE = signature_of(CONTRACT, GOOD)

key_fields = st.sampled_from(["group", "model", "version"])
tensors = st.sampled_from(NAMES)


@given(key_fields, st.text().filter(lambda text: text not in ("chat", "tiny", "1")))
def test_key_changes_with_group_model_and_version(field, other):
    assert signature_of(replace(CONTRACT, key=replace(KEY, **{field: other})), GOOD) != SIGNATURE


@given(tensors, st.data())
def test_key_changes_with_every_field_of_every_tensor(name, data):
    one = GOOD[NAMES.index(name)]
    dense = [size for size in one.shape if isinstance(size, int)]
    axis = data.draw(st.integers(0, len(dense) - 1))
    delta = data.draw(st.integers(1, 100))
    changes = {
        "shape": (*one.shape[:axis], dense[axis] + delta, *one.shape[axis + 1 :]),
        "strides": (*one.strides, 1) if not one.strides else (one.strides[0] + delta, *one.strides[1:]),
        "dtype": data.draw(st.sampled_from(sorted({"int32", "float32", "float16", "bfloat16"} - {one.dtype}))),
        "device": data.draw(st.sampled_from(["cuda:0", "cuda:1", "meta"])),
    }
    alignment = CONTRACT.inputs[NAMES.index(name)].alignment_bytes
    if alignment > 1:
        changes["address"] = ALIGNED + delta * alignment + data.draw(st.integers(1, alignment - 1))
    for field, value in changes.items():
        assert signature_of(CONTRACT, with_one(GOOD, name, **{field: value})) != SIGNATURE, field


def test_key_changes_with_the_contract_itself():
    for other in (replace(CONTRACT, outputs=CONTRACT.outputs[:1]), replace(CONTRACT, graph="attend2")):
        assert signature_of(other, GOOD) != SIGNATURE
    assert signature_of(replace(CONTRACT), GOOD) == SIGNATURE


def test_key_changes_when_two_fields_trade_places():
    assert signature_of(replace(CONTRACT, key=ContractKey("tiny", "chat", "1")), GOOD) != SIGNATURE


def test_key_stays_where_nothing_matters():
    assert signature_of(CONTRACT, with_one(GOOD, "ids", address=ALIGNED + 64)) == SIGNATURE
    assert signature_of(CONTRACT, with_one(GOOD, "pages", address=1)) == SIGNATURE  # no alignment asked for


def test_key_changes_with_the_dims_that_the_step_gives_and_with_the_side():
    outputs, made = replace(CONTRACT, outputs=CONTRACT.inputs), ((), (5,), (6,))
    given = [signature_of(outputs, GOOD, values) for values in made]
    assert len({*given, signature_of(outputs, GOOD, (5,), outputs=True)}) == 4


def test_a_hit_on_everything_but_the_dtype_is_no_hit():
    """The seed's question: what happens when the key lacks the dtype? float32 data gets float16's answer."""
    stage = Stage()
    stage.binder.check(CONTRACT, GOOD)
    with pytest.raises(ContractViolation, match="dtype: expected float16, got float32"):
        stage.binder.check(CONTRACT, with_one(GOOD, "gate_up", dtype="float32"))
    assert (stage.binder.cache.hits, stage.binder.cache.misses) == (0, 2)


wrong = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["int64", "int32", "float16", "float32"]),
        "device": st.sampled_from(["cpu", "meta"]),
        "address": st.integers(ALIGNED, ALIGNED + 32),
        "strides": st.lists(st.integers(0, 40), max_size=4).map(tuple),
        "shape": st.lists(st.integers(0, 12), max_size=4).map(tuple),
    },
)
one_launch = st.tuples(st.integers(1, 3), st.sampled_from([2, 4]), tensors, wrong)


def outcome(stage, contract, made):
    try:
        stage.binder.check(contract, made)
    except ContractViolation as violation:
        return list(violation.violations)
    return []


@given(st.lists(one_launch, min_size=1, max_size=8), st.integers(1, 3))
def test_with_the_cache_every_launch_gets_the_answer_it_would_get_without(launches, entries_max):
    stage = Stage(entries_max)
    contracts = [CONTRACT, replace(CONTRACT, key=replace(KEY, version="2"))]
    for at, (n, w, name, changes) in enumerate([*launches, *launches]):
        made = with_one(facts(n=n, w=w), name, **changes)
        contract = contracts[at % 2]
        assert outcome(stage, contract, made) == violations_of(contract, made)


def test_a_violation_is_not_remembered():
    stage = Stage()
    for _ in range(3):
        with pytest.raises(ContractViolation):
            stage.binder.check(CONTRACT, with_one(GOOD, "ids", dtype="int32"))
    assert len(stage.binder.cache) == 0
    assert stage.env.counters.total["contract.violation"] == 3


def test_the_oldest_entry_makes_room():
    stage = Stage(entries_max=2)
    for n in (1, 2, 1, 3):
        stage.binder.check(CONTRACT, facts(n=n, w=2))
    assert len(stage.binder.cache) == 2
    assert stage.binder.cache.hits == 1
    stage.binder.check(CONTRACT, facts(n=2, w=2))
    assert stage.binder.cache.hits == 2
    stage.binder.check(CONTRACT, facts(n=1, w=2))
    assert stage.binder.cache.hits == 2


def test_an_entry_that_is_added_again_pushes_no_other_out():
    cache = ShapeCache(Stage().env, 2)
    for n in (1, 2, 2):
        cache.add(signature_of(CONTRACT, facts(n=n, w=2)))
    assert cache.holds(signature_of(CONTRACT, facts(n=1, w=2)), "attend", None, None)
