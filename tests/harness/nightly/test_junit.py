"""What a CI server reads of a night: one suite a trial, red where the night is."""

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from assertions.verdict import Level, State, fold
from harness.nightly import junit
from harness.nightly.compare import Night, compare
from harness.nightly.controls import CONTROLS, ControlResult
from tests.harness.nightly.fakes import HOST, TONIGHT, asleep, awake, said, trial

JUDGES = st.lists(st.tuples(st.sampled_from(State), st.sampled_from(Level)), min_size=1, max_size=4)
TRIALS = st.lists(st.one_of(st.none(), JUDGES), max_size=4)


def suites(night: Night) -> dict[str, ET.Element]:
    root = ET.fromstring(junit.render(night))
    assert root.tag == "testsuites"
    for key in ("tests", "failures", "errors", "skipped"):
        assert int(root.get(key) or "") == sum(int(suite.get(key) or "") for suite in root)
    return {str(suite.get("name")): suite for suite in root}


def kinds(suite: ET.Element) -> dict[str, str]:
    found = {}
    for case in suite.iter("testcase"):
        inner = list(case)
        found[str(case.get("name"))] = inner[0].tag if inner else "passed"
    return found


@given(TRIALS, st.booleans())
def test_red_and_green_are_the_nights_own(made: list[list[tuple[State, Level]] | None], are_awake: bool) -> None:
    known = []
    for number, judges in enumerate(made):
        if judges is None:
            known.append((f"s{number}", ()))
            continue
        words = [said(f"j{n}", state, level=level) for n, (state, level) in enumerate(judges)]
        state = fold(words)
        known.append((f"s{number}", (trial(TONIGHT, state, *words, scenario=f"s{number}"),)))
    night = compare(TONIGHT, HOST, known, awake() if are_awake else asleep())
    root = ET.fromstring(junit.render(night))
    assert len(root) == len(known) + len(CONTROLS)
    assert (root.get("failures") != "0") == (night.state is State.FAIL)
    red = root.get("failures") != "0" or root.get("errors") != "0"
    assert red == (night.state is not State.PASS)


def test_a_control_that_was_seen_passes_although_its_run_failed() -> None:
    leak = trial(TONIGHT, State.FAIL, said("reclamation", State.FAIL), scenario="planted-leak", control=True)
    found = (
        ControlResult(CONTROLS[0], True, "kept 86 blocks", leak),
        ControlResult(CONTROLS[1], False, "it was not run", None),
    )
    night = compare(TONIGHT, HOST, [], found)
    assert kinds(suites(night)["planted-leak"]) == {"seen": "passed"}
    assert kinds(suites(night)["planted-drift"]) == {"seen": "error"}


def test_a_trial_without_a_verdict_and_one_that_was_not_run_are_errors_that_say_why() -> None:
    lost = trial(TONIGHT, State.UNKNOWN, because="the trial ended with signal SIGKILL: nothing")
    night = compare(TONIGHT, HOST, [("chat", (lost,)), ("later", ())], awake(), interrupted="SIGTERM")
    for name, why in (("chat", "SIGKILL"), ("later", "not run: SIGTERM received")):
        (case,) = suites(night)[name].iter("testcase")
        assert case.get("name") == "verdict"
        assert why in (case[0].get("message") or "")


def test_a_judge_has_its_own_case_with_what_it_said() -> None:
    words = (
        said("answered"),
        said("e2e.p50 < 1ms", State.FAIL, text="e2e.p50 is 40 ms over 60 in this run"),
        said("leak.rss_anon", State.NOT_JUDGED, level=Level.OBSERVE, text="not judged: 8 periods needed, 0 planned"),
    )
    suite = suites(compare(TONIGHT, HOST, [("chat", (trial(TONIGHT, State.FAIL, *words),))], awake()))["chat"]
    assert kinds(suite) == {"answered": "passed", "e2e.p50 < 1ms": "failure", "leak.rss_anon": "skipped"}
    messages = {case.get("name"): case[0].get("message") for case in suite.iter("testcase") if len(case)}
    assert messages["e2e.p50 < 1ms"] == "e2e.p50 is 40 ms over 60 in this run"
    assert messages["leak.rss_anon"] == "not judged: 8 periods needed, 0 planned"
    assert (suite.get("timestamp"), suite.get("time")) == ("2026-11-28T22:00:00", "10.000")
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties["replay"] == "seatrial replay 2026-11-28_010203_abcd"
    assert properties["seed"] == "7"


@given(st.text())
def test_no_text_of_a_judge_breaks_the_file(text: str) -> None:
    word = said("reclamation", State.FAIL, text=text)
    night = compare(TONIGHT, HOST, [("chat", (trial(TONIGHT, State.FAIL, word),))], awake())
    ET.fromstring(junit.render(night))
