import dataclasses
import json
from pathlib import Path

import pytest

from runtime.core.work import Work
from runtime.device.costs import DEFAULT, CostTable, Priced, Slowing, read_table
from runtime.device.decode_costs import FLOOR_NS
from tests.runtime.device.test_hash_model import work

TABLE = CostTable(
    name="t",
    made_on={"cpu": "x", "date": "2026-01-01"},
    launch_ns=1000,
    prefill=((1, 1000), (100, 100_000)),
    decode_rows=(1, 4),
    decode_context=(10, 100),
    decode_ns=((2000, 3000), (5000, 9000)),
    jitter=0.1,
    error={"total": -0.05},
)


def test_costs_go_through_the_measured_points_and_on_past_the_last():
    assert TABLE.launch_cost_ns(100, 0, 0) == 100_000
    assert TABLE.launch_cost_ns(0, 1, 100) == 3000
    assert TABLE.launch_cost_ns(0, 4, 10) == 5000
    assert TABLE.launch_cost_ns(0, 4, 55) == 7000
    assert TABLE.launch_cost_ns(0, 7, 10) == 8000
    assert TABLE.launch_cost_ns(100, 4, 10) == 104_000  # both parts of a mixed launch, and one launch
    assert TABLE.launch_cost_ns(200, 0, 0) == 200_000


def test_jitter_depends_on_seed_and_step_alone_and_stays_within_its_share():
    def steps(seed: int) -> list[int]:
        return [Priced(TABLE, seed).cost_ns(_step(n)) for n in range(500)]

    assert steps(1) == steps(1)
    assert steps(1) != steps(2)
    middle = TABLE.launch_cost_ns(0, 1, 1)
    assert min(steps(1)) >= 0.9 * middle - 1
    assert max(steps(1)) <= 1.1 * middle + 1
    assert len(set(steps(1))) > 100


def test_no_launch_is_free():
    free = dataclasses.replace(TABLE, launch_ns=0, decode_ns=((0, 0), (0, 0)))
    assert Priced(free, 0).cost_ns(_step(1)) >= FLOOR_NS
    assert free.launch_cost_ns(0, 1, 1) == FLOOR_NS


def test_the_table_that_is_shipped_says_where_it_comes_from_and_how_far_it_was_off():
    table = read_table(DEFAULT)
    assert {"cpu", "date", "model", "threads"} <= table.made_on.keys()
    assert {"step_p50", "step_p90", "total"} == table.error.keys()
    assert "off by" in table.words()
    assert table.launch_cost_ns(512, 0, 0) > table.launch_cost_ns(64, 0, 0) > 0


def test_a_table_goes_through_its_file_unchanged_and_a_broken_one_is_named(tmp_path: Path):
    file = tmp_path / "t.json"
    file.write_text(json.dumps(TABLE.to_json()))
    assert read_table(str(file)) == TABLE
    file.write_text(json.dumps(TABLE.to_json() | {"decode_ns": [[1]]}))
    with pytest.raises(ValueError, match=r"t\.json is not a cost table"):
        read_table(str(file))


@pytest.mark.parametrize("slowing", [False, True])
def test_launches_one_behind_the_other_cost_what_each_costs_by_itself_when_its_time_has_come(slowing):
    now = [7000]
    priced = Slowing(TABLE, 3, lambda: now[0], 0.5, 100_000) if slowing else Priced(TABLE, 3)
    ends = priced.decodes_ns(40, 3, 60, now[0], 30, None, 1 << 60)
    assert len(ends) == 30
    for at, end_ns in enumerate(ends):
        now[0] += priced.decode_ns(40 + at, 3, 60 + 3 * at)
        assert end_ns == now[0]


def test_of_launches_one_behind_the_other_the_first_past_the_bound_is_the_last_and_a_late_one_is_none():
    priced = Priced(TABLE, 3)
    ends = priced.decodes_ns(1, 1, 10, 0, 30, None, 1 << 60)
    assert priced.decodes_ns(1, 1, 10, 0, 30, ends[4], 1 << 60) == ends[:6]
    assert priced.decodes_ns(1, 1, 10, 0, 30, ends[4] - 1, 1 << 60) == ends[:5]
    assert priced.decodes_ns(1, 1, 10, 0, 4, None, 1 << 60) == ends[:4]
    assert priced.decodes_ns(1, 1, 10, 0, 30, None, ends[0]) == []


def test_a_table_that_was_never_measured_says_so():
    assert "off by an unknown error" in dataclasses.replace(TABLE, error={}).words()


def _step(n: int) -> Work:
    return dataclasses.replace(work([([5], 0, [0])]), step=n)
