import shutil
import sqlite3
from pathlib import Path

import pytest

from assertions.verdict import State
from harness.report import model
from harness.report.model import NoRun, Report
from tests.harness.report.story import Story
from tests.harness.report.synthetic import write


def test_outcomes_count_every_request_once(failed: Report, failed_run: Path) -> None:
    connection = sqlite3.connect(failed_run / "run.sqlite")
    recorded = connection.execute("SELECT count(*) FROM request").fetchone()[0]
    connection.close()
    assert failed.outcomes.requests == recorded
    assert sum(row.requests for row in failed.outcomes.rows) == recorded
    assert sum(number for _, number in failed.outcomes.totals) == recorded


def test_unanswered_and_unsent_requests_have_outcomes_of_their_own(failed: Report) -> None:
    totals = dict(failed.outcomes.totals)
    assert totals["unfinished"] > 0
    assert totals["dropped"] > 0
    for row in failed.outcomes.rows:
        if row.outcome in {"unfinished", "dropped"}:
            assert row.e2e_p50_s is None, "never seen is not zero"


def test_each_bad_outcome_has_one_sample(failed: Report) -> None:
    bad = [outcome for outcome, _ in failed.outcomes.totals if outcome not in {"ok", "cancelled"}]
    assert [sample.outcome for sample in failed.outcomes.samples] == bad


def test_the_ledger_shows_armed_fired_felt_and_never_fired(failed: Report) -> None:
    by_name = {fault.fault: fault for fault in failed.faults}
    oom, quota, late = by_name["oom"], by_name["quota"], by_name["late"]
    assert oom.proven
    assert oom.requests_hit == oom.fired
    assert oom.symptom_seen == f"kv.out_of_blocks × {oom.fired}"
    assert oom.recovery.startswith("ok after ")
    assert not quota.proven
    assert quota.symptom_seen == "admit.refused: not seen"
    assert late.state == "never armed"


def test_curves_keep_to_the_point_limit(failed: Report) -> None:
    for chart in failed.timeline.charts:
        assert len(chart.x_s) <= 2000
        assert all(len(line.values) == len(chart.x_s) for line in chart.lines)


def test_an_absent_sensor_is_a_reason_and_never_a_zero(tmp_path: Path) -> None:
    report = model.read(write(tmp_path / "run", Story(minutes=1, kv_sensor=False)))
    chart = next(chart for chart in report.timeline.charts if chart.key == "kv")
    assert chart.absent == "no sensor: target has no /metrics"
    assert chart.lines == ()
    assert all(row.kv_max is None for row in report.timeline.phases)
    assert ("kv.usage", "no sensor: target has no /metrics") in report.missing


def test_audits_count_equal_and_unequal_and_leave_unexpected_values_out(failed: Report) -> None:
    audits = failed.environment.audits
    assert (audits.equal_total, audits.unequal_total) == (6, 2)
    assert audits.unequal[0].owner is not None


def test_a_run_without_verdict_is_unknown_and_says_why(tmp_path: Path) -> None:
    run_dir = write(tmp_path / "run", Story(minutes=1))
    (run_dir / "verdict.json").unlink()
    report = model.read(run_dir)
    assert report.verdict.state is State.UNKNOWN
    assert report.verdict.exit == 2
    assert report.verdict.because == "verdict.json: not written"
    assert report.identity.seed == "7", "the plan knows it"


def test_a_torn_verdict_is_unknown_and_not_an_error_of_ours(tmp_path: Path) -> None:
    run_dir = write(tmp_path / "run", Story(minutes=1))
    (run_dir / "verdict.json").write_text('{"verdict": 1, "state": "PA', encoding="utf-8")
    report = model.read(run_dir)
    assert report.verdict.state is State.UNKNOWN
    assert "unreadable" in (report.verdict.because or "")


def test_a_database_with_a_broken_page_is_said_and_the_verdict_still_shown(tmp_path: Path) -> None:
    run_dir = write(tmp_path / "run", Story(minutes=1))
    database = run_dir / "run.sqlite"
    whole = bytearray(database.read_bytes())
    whole[4096 * 20 : 4096 * 60] = b"\xff" * (4096 * 40)
    database.write_bytes(whole)
    report = model.read(run_dir)
    assert report.verdict.state is State.FAIL
    assert any(name == "run.sqlite" and "broken" in reason for name, reason in report.missing)


def test_a_run_folder_that_cannot_be_written_is_still_read(tmp_path: Path) -> None:
    run_dir = write(tmp_path / "run", Story(minutes=1))
    connection = sqlite3.connect(run_dir / "run.sqlite")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    run_dir.chmod(0o500)
    try:
        assert model.read(run_dir).outcomes.requests > 0
    finally:
        run_dir.chmod(0o700)


def test_a_folder_with_nothing_of_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRun, match="is not a run"):
        model.read(tmp_path)


def test_the_same_story_gives_the_same_model(tmp_path: Path, failed: Report, failed_run: Path) -> None:
    shutil.copytree(failed_run, tmp_path / "copy")
    assert model.read(tmp_path / "copy") == failed


def test_bystanders_are_counted_apart_and_are_no_dots_among_the_canaries(failed: Report) -> None:
    of_kind = {
        kind: sum(n for each, _, n in failed.timeline.compared if each == kind) for kind in ("canary", "bystander")
    }
    assert of_kind["bystander"] == 9
    assert of_kind["canary"] == len(failed.timeline.canaries)
    states = {state for kind, state, _ in failed.timeline.compared if kind == "canary"}
    assert {state for _, state in failed.timeline.canaries} == states
