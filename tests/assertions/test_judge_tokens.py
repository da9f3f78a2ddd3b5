"""tokens seen failing, unknown and quiet: canaries by a reference or themselves, bystanders by their twins."""

import pytest

from assertions.judge import NeedState
from assertions.judges.tokens import Likeness, classify
from assertions.rows import Canary
from assertions.verdict import State
from tests.assertions.recorded import MS, Recorded, S, foreign, healthy, need_of


class TestTokens:
    @pytest.mark.parametrize(
        ("margin", "parted_at", "state", "likeness"),
        [
            (0.0, None, "equal", Likeness.EQUAL),
            (1e-6, None, "drift", Likeness.DRIFT),
            (9e-6, 3, "parted", Likeness.DRIFT),
            (5e-5, None, "drift", Likeness.UNDECIDED),
            (5e-5, 3, "parted", Likeness.UNDECIDED),
            (2e-4, None, "equal", Likeness.CORRUPT),
            (2e-4, 3, "parted", Likeness.CORRUPT),
            (float("nan"), None, "equal", Likeness.CORRUPT),
            (None, 3, "parted", Likeness.UNDECIDED),
            (None, None, "equal", Likeness.EQUAL),
            (None, None, "corrupt", Likeness.CORRUPT),
            (None, None, "unknown", Likeness.UNDECIDED),
            (5e-6, 3, "unknown", Likeness.UNDECIDED),
        ],
    )
    def test_bounds_decide_and_words_do_not(
        self, margin: float | None, parted_at: int | None, state: str, likeness: Likeness
    ) -> None:
        assert classify(Canary("c", "exact", 5, parted_at, margin, state)) is likeness

    def test_one_corrupt_canary_fails_and_is_named_with_its_time(self) -> None:
        run = healthy()
        run.find("canary", request="canary20").update(margin=3e-3, parted_at=2, state="parted")
        judged = run.judged("tokens")
        assert judged.state is State.FAIL
        assert judged.evidence[0].request == "canary20"
        assert judged.since_ns == 101 * S + MS
        assert "parted at token 2" in judged.evidence[0].text

    def test_where_no_canary_is_right_the_model_itself_is_named(self) -> None:
        run = healthy()
        canaries = [row for row in run.tables["canary"] if row["reference"] == "exact"]
        for row in canaries[1:]:
            row.update(margin=3e-3, state="corrupt")
        assert "no canary is right" not in run.judged("tokens").summary
        canaries[0].update(margin=3e-3, state="corrupt")
        assert "no canary is right, so the model itself is computed wrongly" in run.judged("tokens").summary

    def test_bystanders_and_canaries_that_are_equal_are_both_counted(self) -> None:
        judged = healthy().judged("tokens")
        assert judged.state is State.PASS
        assert judged.summary.startswith("37 canaries equal their reference, 19 bystanders equal their twins")
        assert judged.figures["bystanders"] == 19

    def test_a_bystander_with_another_text_than_its_twin_fails_and_is_named(self) -> None:
        run = healthy()
        run.find("canary", request="r489").update(margin=0.2, state="corrupt")
        judged = run.judged("tokens")
        assert judged.state is State.FAIL
        assert "1 of 56 compared replies are corrupt: r489" in judged.summary
        assert (judged.evidence[0].request, judged.fault) == ("r489", "no fault involved")
        assert judged.evidence[0].text == "against twin: the texts differ, its closest choice had a margin of 0.2"

    @pytest.mark.parametrize(("margin", "state"), [(3e-6, "drift"), (5e-5, "unknown")])
    def test_a_bystander_whose_twin_chose_by_a_hair_is_no_corruption(self, margin: float, state: str) -> None:
        run = healthy()
        run.find("canary", request="r487").update(margin=margin, state=state)
        judged = run.judged("tokens")
        assert judged.state is (State.PASS if state == "drift" else State.UNKNOWN)
        if state == "drift":
            assert "1 replies differ by rounding only" in judged.summary

    def test_twins_that_were_planned_and_not_compared_are_unknown_and_say_why(self) -> None:
        run = healthy()
        run.tables["canary"] = [row for row in run.tables["canary"] if row["reference"] != "twin"]
        judged = run.judged("tokens")
        assert (judged.state, judged.summary) == (
            State.UNKNOWN,
            "no bystander was compared with its twin: none ended well",
        )
        run.add("event", t_ns=190 * S, proc="harness", kind="twins_failed", detail="ReferenceFailed: no answer in 60 s")
        assert "ReferenceFailed: no answer in 60 s" in run.judged("tokens").summary

    def test_a_killed_run_has_no_twins_and_is_unknown(self) -> None:
        run = healthy()
        run.tables["canary"] = [row for row in run.tables["canary"] if row["reference"] != "twin"]
        run.cut_at(100 * S, "died")
        judged = run.judged("tokens")
        assert judged.state is State.UNKNOWN
        assert "no bystander was compared with its twin: trial never ended: the harness died" in judged.summary

    def test_a_corrupt_canary_fails_even_where_twins_are_missing(self) -> None:
        run = healthy()
        run.tables["canary"] = [row for row in run.tables["canary"] if row["reference"] != "twin"]
        run.find("canary", request="canary20").update(margin=3e-3, parted_at=2, state="parted")
        assert run.judged("tokens").state is State.FAIL

    def test_without_the_weights_there_are_no_twins_and_it_is_said(self) -> None:
        run = healthy()
        run.tables["canary"] = [row for row in run.tables["canary"] if row["reference"] != "twin"]
        run.plan["target"]["capabilities"].remove("exact")
        judged = run.judged("tokens")
        assert judged.state is State.PASS
        assert "bystanders have no twin without the model's weights" in judged.summary

    def test_rounding_is_printed_and_never_hidden(self) -> None:
        run = healthy()
        run.find("canary", request="canary20").update(margin=5e-6, state="drift")
        judged = run.judged("tokens")
        assert judged.state is State.PASS
        assert "1 replies differ by rounding only" in judged.summary

    def test_between_the_bounds_nobody_can_say(self) -> None:
        run = healthy()
        run.find("canary", request="canary20").update(margin=5e-5)
        assert run.judged("tokens").state is State.UNKNOWN

    def test_too_few_compared_canaries_are_unknown(self) -> None:
        run = healthy()
        for number in range(10):
            run.find("canary", request=f"canary{number}").update(compared=0, margin=None, state="unknown")
        judged = run.judged("tokens")
        assert judged.state is State.UNKNOWN
        assert "only 27 of 37 answered canaries were compared" in judged.summary

    def test_a_foreign_target_is_held_against_its_own_answers_in_the_baseline(self) -> None:
        run = self_agreeing()
        judged = run.judged("tokens")
        assert judged.state is State.PASS, judged.summary
        assert judged.figures["equal"] == 30
        run.find("canary", request="canary20")["tokens"] = '["other"]'
        assert run.judged("tokens").state is State.UNKNOWN
        for number in range(12, 37):
            run.find("canary", request=f"canary{number}")["tokens"] = '["other"]'
        judged = run.judged("tokens")
        assert judged.state is State.FAIL
        assert "against its own answer in the baseline" in judged.evidence[0].text

    def test_a_prompt_that_parts_already_in_the_baseline_has_no_reference(self) -> None:
        run = self_agreeing()
        run.find("canary", request="canary3")["tokens"] = '["other"]'
        judged = run.judged("tokens")
        assert judged.state is State.UNKNOWN
        assert "several answers to each fixed greedy prompt before the trial" in judged.summary

    def test_a_prompt_without_an_answer_of_its_own_is_left_out_and_the_others_are_judged(self) -> None:
        run = self_agreeing()
        two_prompts(run)
        run.find("canary", request="canary3")["tokens"] = '["other"]'  # of the second prompt, in the baseline
        judged = run.judged("tokens")
        assert judged.state is State.PASS, judged.summary
        assert (judged.figures["equal"], judged.figures["compared_share"]) == (15, 1.0)

    def test_parting_now_and_then_is_benign_only_where_the_target_did_so_before_the_trial(self) -> None:
        run = self_agreeing()
        two_prompts(run)
        run.find("canary", request="canary20")["tokens"] = '["other"]'
        assert run.judged("tokens").state is State.UNKNOWN
        run.find("canary", request="canary3")["tokens"] = '["other"]'
        judged = run.judged("tokens")
        assert judged.state is State.PASS
        assert "1 part, as some did before the trial" in judged.summary
        for number in range(8, 37):
            run.find("canary", request=f"canary{number}")["tokens"] = '["other"]'
        assert run.judged("tokens").state is State.FAIL

    def test_self_agreement_needs_a_baseline_in_which_a_prompt_comes_twice(self) -> None:
        run = foreign()
        assert need_of(run, "tokens").state is NeedState.PLANNED
        run.plan["phases"][1]["planned_s"] = 9.0
        need = need_of(run, "tokens")
        assert need.state is NeedState.NOT_JUDGED
        assert "a baseline of 10s" in need.text

    def test_no_canary_at_all_is_unknown(self) -> None:
        run = healthy()
        run.tables["canary"].clear()
        assert run.judged("tokens").state is State.UNKNOWN


def two_prompts(run: Recorded) -> None:
    """Canaries ask two prompts in turn."""
    for row in run.tables["request"]:
        if row["kind"] == "canary":
            row["prompt_sha"] = f"sha{int(row['id'].removeprefix('canary')) % 2}"


def self_agreeing() -> Recorded:
    """Canaries as the recorder leaves them when it knows no reference: seven of one prompt before the trial."""
    run = foreign()
    for row in run.tables["canary"]:
        row.update(reference=None, compared=None, margin=None, state="unknown", tokens='["a", "b"]')
    for row in run.tables["request"]:
        if row["kind"] == "canary":
            row["prompt_sha"] = "sha0"
    return run
