"""fresh_vs_aged seen failing, unknown and quiet, and refused where nothing could be compared."""

import random
from typing import Any

import pytest

from assertions.judge import NeedState, needs
from assertions.verdict import Judged, State
from tests.assertions.recorded import MS, Recorded, S, phases

CHECK = "fresh_vs_aged.ttft.p50 < 20%"


def restarted(aged: float = 1.0, more: str = CHECK, spread: float = 0.1) -> Recorded:
    """100 s at 8/s and a restart, then 60 s of a fresh process. The aged one is slower by the factor `aged`."""
    run, rng = Recorded(), random.Random("fresh")
    phases(
        run, ("warmup", 10), ("baseline", 20), ("trial", 90), ("recovery", 100), ("restart", 110), ("fresh", 170),
        ("drain", 175),
    )  # fmt: skip
    for number in [*range(100 * 8), *range(105 * 8, 170 * 8)]:
        slow = aged if number < 100 * 8 else 1.0
        run.request(f"r{number}", number * S // 8, ttft_ns=int(20 * MS * slow * rng.lognormvariate(0, spread)))
    run.add("event", t_ns=101 * S, proc="harness", kind="target_restart", detail="")
    run.add("event", t_ns=102 * S, proc="server", kind="exit", value=0, detail="")
    run.plan["phases"] += [{"name": name, "n": 0, "planned_s": s} for name, s in (("restart", 12.0), ("fresh", 60.0))]
    run.plan["faults"] = []
    run.plan["scenario"]["check"] = [{"that": more}]
    return run


def said(run: Recorded) -> Judged:
    return next(judged for judged in run.verdict().judges if judged.name.startswith("fresh_vs_aged"))


@pytest.mark.parametrize(
    ("aged", "state"), [(1.0, State.PASS), (1.2, State.UNKNOWN), (1.4, State.FAIL), (0.5, State.PASS)]
)
def test_the_aged_target_is_held_against_the_fresh_one(aged: float, state: State) -> None:
    judged = said(restarted(aged))
    assert judged.state is state, judged.summary
    assert judged.figures["share"] == pytest.approx(aged - 1, abs=0.05)
    assert (judged.figures["aged_n"], judged.figures["fresh_n"]) == (480, 480)


def test_a_fail_names_both_latencies_and_the_memory_of_both_processes() -> None:
    run = restarted(1.4)
    run.series("server.rss_anon", [(t * S, (300.0 if t < 101 else 280.0) * 2**20) for t in range(170)])
    judged = said(run)
    assert "ttft.p50 is 28.1 ms aged and 20 ms fresh (+40" in judged.summary
    assert "memory 300 MiB and 280 MiB" in judged.summary
    assert judged.owner == "server"


def test_without_the_restart_nothing_is_compared() -> None:
    run = restarted(1.4)
    run.drop("event", kind="target_restart")
    judged = said(run)
    assert judged.state is State.UNKNOWN
    assert "was not started again" in judged.summary


def test_a_tail_needs_more_requests_than_came() -> None:
    run = restarted(more="fresh_vs_aged.ttft.p99 < 20%")
    run.plan["load"][0]["rate_mean"] = 20.0
    judged = said(run)
    assert judged.state is State.UNKNOWN
    assert "are needed" in judged.summary


@pytest.mark.parametrize(
    ("change", "because", "cure"),
    [
        ({"phases": []}, "not started again", "fresh = "),
        ({"rate_mean": 0.1}, "are planned", "a faster probe"),
        ({"period_s": 25.0}, "no whole periods of load chat", "fresh = 25s"),
        ({"arrivals_by_second": "8 8"}, "a trace", "without a trace"),
    ],
)
def test_a_plan_that_could_not_compare_is_refused(change: dict[str, Any], because: str, cure: str) -> None:
    run = restarted()
    if "phases" in change:
        run.plan["phases"] = run.plan["phases"][:-1]
    else:
        run.plan["load"][0] |= change
    need = next(each for each in needs(run.plan_view()) if each.judge.startswith("fresh_vs_aged"))
    assert need.state is NeedState.REFUSED
    assert because in (need.because or "")
    assert cure in (need.cure or "")


def test_the_plan_says_what_it_can_see() -> None:
    need = next(each for each in needs(restarted().plan_view()) if each.judge.startswith("fresh_vs_aged"))
    assert "480 requests on each side see an ageing from" in (need.note or need.text)
