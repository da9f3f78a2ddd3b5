"""Tonight against the nights before, over trials that were never run."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assertions.verdict import Level, State
from harness.nightly.compare import Figure, Night, compare
from harness.nightly.trial import Trial
from tests.harness.nightly.fakes import HOST, TONIGHT, asleep, awake, nights, said, trial

PASS, FAIL, UNKNOWN = State.PASS, State.FAIL, State.UNKNOWN


def night_of(*scenarios: Sequence[Trial], **more: object) -> Night:
    known = [(trials[0].scenario if trials else "absent", trials) for trials in scenarios]
    return compare(TONIGHT, HOST, known, more.pop("controls", awake()), **more)  # type: ignore[arg-type]


def figure(night: Night, metric: str) -> Figure:
    return next(each for each in night.figures if each.metric == metric)


def p99(night: str, value: float) -> Trial:
    return trial(night, PASS, said(figures={"value": value}))


def test_a_streak_counts_the_nights_in_a_row_that_say_the_same() -> None:
    assert night_of(nights(PASS, FAIL, FAIL, FAIL)).rows[0].streak == 3
    assert night_of(nights(FAIL, PASS, FAIL)).rows[0].streak == 1
    assert night_of(nights(PASS)).rows[0].streak == 1


def test_a_red_scenario_names_the_commit_that_was_green_last() -> None:
    row = night_of(nights(PASS, PASS, FAIL, FAIL)).rows[0]
    assert row.green_commit == f"{1:040d}"
    assert night_of(nights(FAIL, PASS)).rows[0].green_commit is None, "it is green"


def test_a_changed_state_is_told_for_the_scenario_and_for_its_judge() -> None:
    before = trial("2026-11-27", PASS, said("a"), said("b"))
    now = trial(TONIGHT, FAIL, said("a", FAIL, text="kept 3 blocks"), said("b"))
    changes = night_of((before, now)).changes
    assert [(each.judge, each.before, each.now) for each in changes] == [(None, PASS, FAIL), ("a", PASS, FAIL)]
    assert changes[1].text == "kept 3 blocks"


def test_a_judge_that_came_or_went_is_a_change() -> None:
    before, now = trial("2026-11-27", PASS, said("old")), trial(TONIGHT, PASS, said("new"))
    told = [(each.judge, each.before, each.now) for each in night_of((before, now)).changes]
    assert told == [("new", None, PASS), ("old", PASS, None)]


def test_the_night_before_is_the_last_one_that_ran_the_scenario() -> None:
    row = night_of((trial("2026-11-20", FAIL), trial(TONIGHT, PASS))).rows[0]
    assert row.last is not None
    assert (row.last.night, row.last.state) == ("2026-11-20", FAIL)


def test_the_first_night_has_nothing_to_compare_with() -> None:
    night = night_of(nights(FAIL))
    assert (night.changes, night.moved, night.nights_before) == ((), (), 0)


def test_a_figure_has_last_night_the_median_and_the_ratio_to_it() -> None:
    night = night_of([p99("2026-11-25", 4.0), p99("2026-11-26", 1.0), p99("2026-11-27", 2.0), p99(TONIGHT, 3.0)])
    told = figure(night, "ttft.p99 < 1s: value")
    assert (told.tonight, told.last, told.median, told.nights, told.ratio) == (3.0, 2.0, 2.0, 3, 1.5)
    assert told.unit == "s"
    assert told.moved
    assert night.moved == (told,)


def test_the_median_is_of_the_last_fourteen_nights() -> None:
    old = [p99(f"2026-10-{n:02d}", 100.0) for n in range(1, 20)]
    recent = [p99(f"2026-11-{n:02d}", 1.0) for n in range(1, 15)]
    assert figure(night_of([*old, *recent, p99(TONIGHT, 1.0)]), "ttft.p99 < 1s: value").median == 1.0


def test_a_figure_within_a_tenth_of_its_median_has_not_moved() -> None:
    assert night_of([p99("2026-11-27", 1.0), p99(TONIGHT, 1.09)]).moved == ()
    assert night_of([p99("2026-11-27", 1.0), p99(TONIGHT, 0.5)]).moved, "less is news too"


def test_what_came_from_nothing_has_moved_and_comes_first() -> None:
    def both(night: str, excess: float, value: float) -> Trial:
        return trial(night, PASS, said(figures={"value": value}), said("reclamation", figures={"excess": excess}))

    night = night_of([both("2026-11-27", 0.0, 1.0), both(TONIGHT, 5.0, 9.0)])
    assert [each.metric for each in night.moved] == ["reclamation: excess", "ttft.p99 < 1s: value"]
    assert night.moved[0].ratio is None


def test_a_wall_time_may_differ_by_half_before_it_is_news() -> None:
    assert night_of([trial("2026-11-27", wall_s=10), trial(TONIGHT, wall_s=14)]).moved == ()
    assert night_of([trial("2026-11-27", wall_s=10), trial(TONIGHT, wall_s=16)]).moved


def test_a_slope_about_0_is_never_news_and_a_share_by_its_difference() -> None:
    def both(night: str, per_hour: float, share: float) -> Trial:
        leak = said("leak.rss_anon", figures={"per_hour": per_hour})
        return trial(night, PASS, leak, said("drift.ttft.p99 < 10%", figures={"share": share}))

    assert night_of([both("2026-11-27", 100.0, 0.001), both(TONIGHT, -300.0, -0.004)]).moved == ()
    moved = night_of([both("2026-11-27", 100.0, 0.001), both(TONIGHT, 300.0, 0.05)]).moved
    assert [each.metric for each in moved] == ["leak.rss_anon: per_hour", "drift.ttft.p99 < 10%: share"]


def test_the_trend_is_of_thirty_nights_oldest_first() -> None:
    past = [p99(f"2026-10-{n:02d}", float(n)) for n in range(1, 32)] + [p99("2026-11-01", 99.0)]
    assert figure(night_of([*past, p99(TONIGHT, 1.0)]), "ttft.p99 < 1s: value").past == (*range(3, 32), 99.0)


def test_the_worst_scenarios_come_first() -> None:
    night = night_of(*[[trial(TONIGHT, state, scenario=f"s{n}")] for n, state in enumerate((PASS, UNKNOWN, FAIL))])
    assert [row.scenario for row in night.rows] == ["s2", "s1", "s0"]


def test_of_several_trials_in_one_night_the_last_counts() -> None:
    row = night_of((trial("2026-11-27", FAIL), trial(TONIGHT, FAIL), trial(TONIGHT, PASS))).rows[0]
    assert (row.state, row.trials, row.streak) == (PASS, 2, 1)


def test_a_night_whose_judges_sleep_is_unknown_and_says_so_first() -> None:
    night = night_of(nights(PASS), controls=asleep())
    assert (night.state, night.exit) == (UNKNOWN, 2)
    assert night.because[0].startswith("planted-leak was not detected")


def test_a_sleeping_judge_does_not_hide_a_fail() -> None:
    night = night_of(nights(FAIL), controls=asleep())
    assert (night.state, night.exit) == (FAIL, 1)
    assert night.because


def test_the_fail_of_a_control_is_no_fault_of_the_night() -> None:
    night = night_of(nights(PASS), controls=awake())
    assert (night.state, night.exit, night.because) == (PASS, 0, ())


def test_an_interrupted_night_exits_130_and_names_what_was_left_out() -> None:
    night = compare(TONIGHT, HOST, [("chat", nights(PASS)), ("flood", ())], awake(), interrupted="SIGINT")
    assert night.exit == 130
    assert night.state is UNKNOWN
    assert [row.state for row in night.rows] == [None, PASS]
    assert night.rows[0].text == "not run: SIGINT received"


def test_a_trial_without_a_verdict_tells_why() -> None:
    row = night_of([trial(TONIGHT, UNKNOWN, because="the trial ended with signal SIGKILL: nothing")]).rows[0]
    assert row.text == "the trial ended with signal SIGKILL: nothing"


def test_an_observed_judge_is_not_why_a_trial_failed() -> None:
    now = trial(TONIGHT, FAIL, said("a", FAIL, text="one"), said("b", FAIL, text="two", level=Level.OBSERVE))
    assert night_of([now]).rows[0].text == "a: one"


@given(st.lists(st.sampled_from([PASS, FAIL, UNKNOWN]), min_size=1, max_size=6), st.booleans())
def test_a_night_is_the_fold_of_its_scenarios_and_controls(states: list[State], seen: bool) -> None:
    night = night_of(*[[trial(TONIGHT, state)] for state in states], controls=awake() if seen else asleep())
    worst = max(states, key=[PASS, UNKNOWN, FAIL].index)
    expected = UNKNOWN if worst is PASS and not seen else worst
    assert night.state is expected
    assert sum(number for _, number in night.counts) == len(states)


@pytest.mark.parametrize(("commits", "told"), [("ab", 2), ("aa", 1)])
def test_a_commit_in_the_middle_of_the_night_shows(commits: str, told: int) -> None:
    trials = [[trial(TONIGHT, commit=each * 40)] for each in commits]
    assert len(night_of(*trials).commits) == told


def test_what_an_interrupted_night_left_out_is_counted_in_words() -> None:
    def because(*not_run: str) -> str:
        known = [("chat", nights(PASS)), *((name, ()) for name in not_run)]
        return compare(TONIGHT, HOST, known, awake(), interrupted="SIGINT").because[-1]

    assert because() == "SIGINT received: during the last scenario"
    assert because("a") == "SIGINT received: 1 scenario was not run"
    assert because("a", "b") == "SIGINT received: 2 scenarios were not run"
