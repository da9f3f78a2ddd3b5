"""Bugs of the field planted one at a time in a virtual run: the judge that is meant to find each says FAIL.

The clean runtime passes the same scenarios, so it is the bug that is found and not the scenario.
"""

import re

import pytest

from tests.planted.virtual import sweep, table
from tests.planted.virtual.bugs import BUGS, Bug
from tests.planted.virtual.bugs.m10_published_at_allocation import plant as publish_early
from tests.planted.virtual.trial import planted, run

WANTED = {"M1", "M2", "M3", "M7", "M8", "M10", "M11", "M13", "M16", "M18"}
AT_ONCE = {"M1", "M2", "M3", "M7", "M8", "M10", "M13"}
"""Seen at the step in which they do harm, and not only at the end."""


def test_every_bug_of_the_list_is_planted() -> None:
    assert {bug.id for bug in BUGS} == WANTED


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.id} {bug.name}")
def test_the_judge_that_is_meant_to_find_it_says_fail_and_when(bug: Bug) -> None:
    with planted(bug):
        trial = run(bug.scenario)
    assert str(trial.verdict.state) == "FAIL"
    assert bug.judge in trial.failed, [judged.summary for judged in trial.verdict.judges]
    judged = trial.judged(bug.judge)
    assert judged.evidence and judged.limit, "a FAIL shows what it saw"
    seen_s = trial.seen_s(bug.judge)
    assert seen_s is not None
    if bug.id in AT_ONCE:
        assert "kv." in judged.summary
    if bug.judge == "invariants":
        assert "tokens" not in trial.failed, "wrong KV must never be answered with 200"


@pytest.mark.parametrize("scenario", sorted({bug.scenario for bug in BUGS}))
def test_the_clean_runtime_passes_the_scenario(scenario: str) -> None:
    trial = run(scenario)
    assert str(trial.verdict.state) == "PASS", [judged.summary for judged in trial.verdict.judges]
    assert not trial.failed


def test_a_gap_check_looks_at_the_gaps_of_every_measured_phase_however_short() -> None:
    assert run("pr-long-prompts").judged("itl.max < 200ms [chat, all]").figures["n"] > 1000


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_nothing_of_a_bug_is_left_behind(bug: Bug) -> None:
    from runtime.device import host_bytes
    from runtime.memory.kv import paged, prefix
    from runtime.scheduling import request, scheduler

    owners = (paged.PagedPool, prefix.PrefixIndex, request.Request, scheduler.Scheduler, host_bytes.SimMover)
    before = [dict(vars(owner)) for owner in owners]
    with planted(bug):
        assert [dict(vars(owner)) for owner in owners] != before
    assert [dict(vars(owner)) for owner in owners] == before


def test_publishing_before_the_launch_is_stopped_by_the_engine_itself_where_it_is_not_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from runtime.memory.kv.paged import PagedPool

    check_writes = PagedPool.check_writes
    publish_early(monkeypatch)
    monkeypatch.setattr(PagedPool, "check_writes", check_writes)
    alive = run("pr-burst").judged("alive")
    assert alive.state == "FAIL" and "would write published blocks" in alive.summary


def test_a_sweep_tells_the_seed_and_the_judge_of_a_run_that_failed() -> None:
    bug = next(bug for bug in BUGS if bug.id == "M7")
    with planted(bug):
        (odd,) = sweep.sweep([3], [bug.scenario])
    assert odd is not None
    assert (odd.scenario, odd.seed, odd.state) == ("pr-shared-prefix", 3, "FAIL")
    assert "invariants" in odd.failed and any(words.startswith("invariants: ") for words in odd.words)


def test_few_clean_seeds_make_no_judge_cry(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(["--first", "100", "--seeds", "1"]) == 0, capsys.readouterr().out
    assert re.fullmatch(r"3 of 3 clean runs in \d+ s: 0 with a FAIL, 0 not PASS\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(8), marks=pytest.mark.slow, id="8"),
        pytest.param(range(200), marks=pytest.mark.soak, id="200: six minutes of a core"),
    ],
)
def test_many_clean_seeds_make_no_judge_cry(seeds: range) -> None:
    assert [odd for odd in sweep.sweep(seeds) if odd is not None] == []


@pytest.mark.slow
@pytest.mark.soak
def test_the_table_has_a_line_for_each_bug_and_misses_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert table.main() == 0, capsys.readouterr().out
    told = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert told == [bug.id for bug in BUGS] + ["M9", "M13"]
