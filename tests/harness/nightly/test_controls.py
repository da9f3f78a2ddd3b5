"""The planted leak and drift: seen only as a FAIL of the right judge at the planted size."""

from pathlib import Path

import pytest

from assertions.verdict import Judged, State
from harness.nightly.controls import CONTROLS, DRIFT, LEAK, Control, jobs, look, of
from harness.nightly.select import RESERVED
from harness.prepare import prepare
from runtime.device.costs import Priced, Slowing, read_table
from runtime.points import catalogue
from tests.harness.nightly.fakes import TONIGHT, said, trial

GOOD = {LEAK: {"per_1000_fires": 6812.0, "excess": 109.0}, DRIFT: {"share": 0.19}}
OTHER = {LEAK: {"per_1000_fires": 12.0, "excess": 1.0}, DRIFT: {"share": 0.9}}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_only_a_fail_of_the_right_judge_at_the_planted_size_is_seen(control: Control) -> None:
    def seen(*judges: Judged) -> bool:
        return look(control, trial(TONIGHT, State.FAIL, *judges, control=True)).seen

    good, other = GOOD[control.name], OTHER[control.name]
    assert seen(said(control.judge, State.FAIL, figures=good))
    assert not seen(said(control.judge, State.FAIL, figures=other)), "of another size"
    assert not seen(said(control.judge, State.PASS, figures=good))
    assert not seen(said(control.judge, State.UNKNOWN, figures=good))
    assert not seen(said("another", State.FAIL, figures=good))
    assert not seen()
    assert not look(control, None).seen


def test_a_control_that_was_not_seen_says_why() -> None:
    text = look(of(DRIFT), trial(control=True, because="the trial ended with signal SIGKILL")).text
    assert text == "the trial ended with signal SIGKILL"


def test_the_scenarios_of_the_controls_are_sound_virtual_and_of_their_name(tmp_path: Path) -> None:
    made = jobs(tmp_path)
    assert [job.scenario for job in made] == [LEAK, DRIFT]
    for job in made:
        scenario = prepare(job.options, catalogue()).scenario
        assert (scenario.name, scenario.drive) == (job.scenario, "virtual")
        assert scenario.name.startswith(RESERVED)
        assert not scenario.fault, "no judge is told"
        assert job.control


@pytest.mark.parametrize("start_s", [0, 60, 2400])
def test_a_slowing_device_costs_its_share_more_after_its_time_wherever_one_begins(start_s: int) -> None:
    table, now_ns = read_table(), [start_s * 10**9]
    costs = Slowing(table, 1, lambda: now_ns[0], 0.2, 2400 * 10**9)
    before = costs.decode_ns(1, 4, 400)
    now_ns[0] += 2400 * 10**9
    assert costs.decode_ns(1, 4, 400) / before == pytest.approx(1.2, rel=1e-6)
    assert Slowing(table, 1, lambda: 0, 0.2, 10**9).decode_ns(1, 4, 400) == Priced(table, 1).decode_ns(1, 4, 400)
