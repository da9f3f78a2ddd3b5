"""Facts of a launch are those of the arrays that torch will wrap, and every launch of the engine keeps its contract."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from runtime.contract.binder import Binder
from runtime.contract.registry import Contract, ContractKey
from runtime.contract.step import facts_of_array, facts_of_work, step_io
from runtime.contract.violation import ContractViolation
from tests.contract.device.worlds import work
from tests.runtime.contract.stage import Stage
from tests.runtime.fakes import Bench

CONTRACT = Contract(ContractKey(), step_io(tokens_max=16, rows_max=4, blocks_max=16))


def refused(made):
    with pytest.raises(ContractViolation) as violation:
        Stage().binder.check(CONTRACT, facts_of_work(made))
    return {(one.tensor, str(one.rule)) for one in violation.value.violations}


def test_every_launch_of_a_busy_engine_keeps_the_contract():
    bench = Bench(blocks=16)
    binder = Binder(bench.env)
    bound = []
    launch = bench.device.launch

    def looking(work, reads, writes):
        bound.append(binder.check(CONTRACT, facts_of_work(work)).dims)
        return launch(work, reads, writes)

    bench.device.launch = looking
    for n in (1, 3, 40, 7, 9):  # 40 tokens need several chunks, and the pool is too small for all at once
        bench.submit(range(n), max_tokens=8)
    bench.run()
    assert max(dims["tokens"] for dims in bound) == 16
    assert max(dims["rows"] for dims in bound) > 1
    assert binder.cache.hits > binder.cache.misses


@pytest.mark.parametrize("name", ["token_ids", "positions", "slots", "row_starts", "context_lens"])
def test_a_launch_built_wrongly_is_refused_with_the_array_at_fault(name):
    good = work(1, [2, 1])
    array = getattr(good, name)
    assert (name, "dtype") in refused(replace(good, **{name: array.astype(np.int32)}))
    assert (name, "rank") in refused(replace(good, **{name: array[:, None]}))
    assert (name, "layout") in refused(replace(good, **{name: np.repeat(array, 2)[::2]}))
    shifted = np.frombuffer(b"." + array.tobytes(), np.uint8)[1:].view(np.int64)
    assert (name, "address") in refused(replace(good, **{name: shifted}))
    assert refused(replace(good, **{name: array[:-1]}))


def test_a_row_without_blocks_is_refused_and_named():
    with pytest.raises(ContractViolation) as violation:
        Stage().binder.check(CONTRACT, facts_of_work(replace(work(1, [2, 1]), block_tables=((0,), ()))))
    assert violation.value.rows == (1,)


def test_a_launch_over_its_bounds_is_refused():
    assert refused(work(1, [17])) == {("token_ids", "range")}
    assert refused(work(1, [1] * 5)) == {("context_lens", "range")}


def test_facts_of_an_array_are_what_numpy_says_of_it():
    whole = np.zeros((6, 8), np.float32)
    for array in (whole, whole[::2, 1:], whole.T, whole[0], np.zeros(0, np.int64), np.zeros((), np.int8)):
        made = facts_of_array(array, "a")
        assert made.shape == array.shape
        assert tuple(stride * array.itemsize for stride in made.strides) == array.strides
        assert (made.dtype, made.device, made.address) == (array.dtype.name, "cpu", array.ctypes.data)
    whole.setflags(write=False)
    assert facts_of_array(whole, "a").address == whole.ctypes.data


def test_strides_of_part_elements_are_refused():
    packed = np.zeros(4, np.dtype([("a", "<i8"), ("b", "<i4")]))["a"]
    with pytest.raises(ValueError, match=r"a: strides of \(12,\) bytes are not whole 8 byte elements"):
        facts_of_array(packed, "a")


def test_the_layer_starts_without_torch():
    names = "binder step damage points registry validate"
    code = "import sys; " + "; ".join(f"import runtime.contract.{name}" for name in names.split())
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
