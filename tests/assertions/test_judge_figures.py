"""figures, seen failing on each gauge and counter that is not true."""

from collections.abc import Callable

import numpy as np
import pytest

from assertions.verdict import Judged, State
from tests.assertions.recorded import MS, Recorded, S, foreign, healthy

TIMES = range(190)


def shows(run: Recorded, name: str, samples: list[tuple[int, float]], kind: str = "gauge") -> None:
    run.series(name, samples)
    run.tables["series"][-1]["kind"] = kind


def change(run: Recorded, name: str, **at: float) -> None:
    """Change samples of a series, by the second in which they were taken, such as `s189=3`."""
    number = next(row["id"] for row in run.tables["series"] if row["name"] == name)
    for row in run.tables["sample"]:
        key = f"s{row['t_ns'] // S}"
        if row["series"] == number and key in at:
            row["value"] = at[key]


def measured(run: Recorded) -> Recorded:
    """The run with the true figures of its requests, and an audit late in the drain."""
    replies = [row for row in run.tables["reply"] if row["outcome"] == "ok"]
    ends = np.sort([row["end_ns"] for row in replies])
    served = np.array([int(np.searchsorted(ends, s * S, side="right")) for s in TIMES])
    for row in run.tables["reply"]:
        row["prompt_tokens"] = 10 if row["outcome"] == "ok" else None
    for row in run.tables["served"]:
        ok = row["outcome"] == "ok"
        row["tokens_out"] = 5 if ok else 0
        row.update(tokens_in=10, tokens_cached=0, preempted=0, first_ns=row["arrive_ns"] + MS if ok else None)
    busy = [(s * S, 1.0 if s < 185 else 0.0) for s in TIMES]
    shows(run, "server.running", busy)
    shows(run, "kv.usage", [(t, value / 8) for t, value in busy])
    shows(run, "server.generation_tokens", [(s * S, 5.0 * served[s]) for s in TIMES], "counter")
    shows(run, "server.prompt_tokens", [(s * S, 10.0 * served[s]) for s in TIMES], "counter")
    if run.tables["audit"]:
        for name in ("requests.open", "kv_blocks.live", "kv_blocks.limbo"):
            run.add("audit", t_ns=189 * S, scope="drain", name=name, kind="live", value=0, expected=0, owner="")
    return run


def fails(run: Recorded, series: str, words: str) -> Judged:
    judged = run.judged("figures")
    assert judged.state is State.FAIL, judged.summary
    assert judged.observed == f"wrong: {series}"
    assert any(words in each.text for each in judged.evidence), judged.evidence
    return judged


@pytest.mark.parametrize("make", [healthy, foreign])
def test_true_figures_pass_and_are_named(make: Callable[[], Recorded]) -> None:
    judged = measured(make()).judged("figures")
    assert judged.state is State.PASS, judged.evidence
    for name in ("kv.usage", "server.generation_tokens", "server.prompt_tokens"):
        assert name in judged.summary


def test_a_gauge_that_is_not_zero_when_the_audit_finds_nothing_fails_with_its_time() -> None:
    run = measured(healthy())
    change(run, "server.running", s188=2, s189=2)
    assert fails(run, "server.running", "at the drain is 2, expected 0: the audit").since_ns == 189 * S


def test_a_counter_that_differs_from_the_journal_by_one_token_fails() -> None:
    run = measured(healthy())
    run.find("served", request="r900")["tokens_out"] = 4
    fails(run, "server.generation_tokens", "expected 7579: tokens out in 1517 rows of the server's journal")


def test_a_counter_may_fall_at_a_restart_and_at_no_other_time() -> None:
    run = measured(healthy())
    change(run, "server.prompt_tokens", s100=0)
    fails(run, "server.prompt_tokens", "is a counter and fell from")
    run.add("event", t_ns=99 * S + MS, proc="server", kind="start", detail="")
    run.add("event", t_ns=100 * S + MS, proc="server", kind="start", detail="")
    assert "fell" not in str(run.judged("figures").evidence)


def test_a_foreign_counter_must_lie_between_what_clients_read_and_what_they_asked_for() -> None:
    run = measured(foreign())
    change(run, "server.generation_tokens", s189=15000)
    fails(run, "server.generation_tokens", "grew by 15000, expected 7580 to")
    run = measured(foreign())
    for row in run.tables["sample"]:
        if row["series"] == next(one["id"] for one in run.tables["series"] if one["name"] == "server.prompt_tokens"):
            row["value"] /= 2
    fails(run, "server.prompt_tokens", "grew by 7580, expected 15160 to")


def test_a_sample_stamped_just_before_the_first_request_may_show_its_tokens_already() -> None:
    run = measured(foreign())
    sent_ns = min(row["sent_ns"] for row in run.tables["request"])
    number = next(row["id"] for row in run.tables["series"] if row["name"] == "server.generation_tokens")
    run.tables["sample"] = [row for row in run.tables["sample"] if row["series"] != number or row["t_ns"] > sent_ns]
    run.add("sample", series=number, t_ns=sent_ns - 1, value=5.0)
    assert run.judged("figures").state is State.PASS


@pytest.mark.parametrize("series", ["server.running", "kv.usage"])
def test_a_gauge_that_stays_at_zero_under_load_is_stuck(series: str) -> None:
    run = measured(foreign())
    for reply in run.tables["reply"][:400]:  # long answers: clients read tokens for seconds
        if reply["outcome"] == "ok":
            reply["last_ns"] = reply["end_ns"] = reply["end_ns"] + 5 * S
    number = next(row["id"] for row in run.tables["series"] if row["name"] == series)
    for row in run.tables["sample"]:
        if row["series"] == number:
            row["value"] = 0.0
    fails(run, series, f"{series} is 0 in ")


def test_a_target_without_metrics_is_not_judged_and_one_without_known_series_is_unknown() -> None:
    run = foreign()
    run.plan["target"]["capabilities"] = ["pid"]
    assert run.judged("figures").state is State.NOT_JUDGED
    run.plan["target"]["capabilities"] = ["pid", "metrics"]
    run.tables["series"].clear()
    assert run.judged("figures").state is State.UNKNOWN
