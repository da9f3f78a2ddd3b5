"""The list of counters that a scenario may name is that of the code that counts."""

import re
from pathlib import Path

import pytest

import runtime
from runtime.counters import COUNTERS, LIVE_ONLY
from runtime.points import catalogue

LINES = [line for path in Path(runtime.__file__).parent.rglob("*.py") for line in path.read_text().splitlines()]
COUNTING = re.compile(r"counters\.hit\(|\.count\(|^[A-Z_]+ = ")
COUNTED = {name for line in LINES if COUNTING.search(line) for name in re.findall(r'"([a-z_]+\.[a-z_]+)"', line)}
NO_COUNTERS = {"seatrial.abort", "model.safetensors", *catalogue().names()} - set(COUNTERS)
BY_STAGE = {"waiting", "preempted", "swapped", "copying", "prefill", "decode"}
RUNGS = {"take_back", "release_free", "defrag"}
BY_PREFIX = {"miss", "hit", "full_hit", "recompute"}


def test_the_counters_that_a_scenario_may_name_are_those_that_the_code_counts():
    computed = {name for name in COUNTERS if name.split(".")[1] in BY_STAGE | RUNGS | BY_PREFIX}
    assert set(COUNTERS) - computed == COUNTED - NO_COUNTERS - computed
    assert set(COUNTERS) >= LIVE_ONLY


@pytest.mark.parametrize("name", ["contract.violation", "memory.pressure", "stream.cut"])
def test_counters_are_found_in_each_form_of_counting(name: str):
    assert name in COUNTED
