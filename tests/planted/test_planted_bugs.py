"""Real bugs in the real server, found by the real command: the right judge says so and names who it was.

Each bug is a small file in `bugs/` that models one of the field; `site/` plants it. The healthy runtime passes the
same scenarios, so it is the bug that is found and not the scenario.
"""

import re
from pathlib import Path

import pytest

from tests.planted.live import Trial, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scenario", ["cancels", "faults"])
def test_the_healthy_runtime_passes_the_scenario(scenario: str, tmp_path: Path) -> None:
    trial = run(scenario, tmp_path)
    assert trial.exit == 0, trial.text
    assert trial.verdict["state"] == "PASS"
    assert "planted" not in trial.log


def test_blocks_kept_on_a_cancel_in_prefill_are_a_leak_with_the_clients_id_and_a_rate(tmp_path: Path) -> None:
    trial = found("kept_on_cancel", "cancels", tmp_path, {"reclamation"})
    judged = trial.judged("reclamation")
    owners = re.findall(r"\w+-\d+", judged["owner"])
    assert owners and all(owner.startswith("fickle-") for owner in owners)
    assert judged["figures"]["per_1000_cancels"] > 0
    assert f"owner {owners[0]}" in trial.flat
    assert re.search(r"blocks too many \(live\) at the drain, held by fickle-\d+", trial.flat)
    assert re.search(r"observed \+\d+ blocks, .* per 1,000 cancels", trial.flat)
    assert "last events" in trial.flat and "cancelled in running: client_gone; " in trial.flat


def test_a_stream_that_ends_early_as_if_finished_breaks_the_contract_though_every_client_saw_ok(tmp_path: Path) -> None:
    trial = found("early_done", "cancels", tmp_path, {"answered", "tokens"})
    hit = [each["request"] for each in trial.judged("answered")["evidence"] if each["request"]]
    assert hit and all(re.fullmatch(r"(chat|fickle|canary)-\d+", request) for request in hit)
    assert re.search(rf"{hit[0]} the client counted 3 tokens, the server \d+", trial.flat)
    assert "inband_error" not in trial.text and "truncated" not in trial.text


def test_an_event_that_never_arrives_is_seen_in_the_canaries_though_both_ledgers_agree(tmp_path: Path) -> None:
    trial = found("lost_event", "cancels", tmp_path, {"tokens"})
    assert trial.judged("answered")["state"] == "PASS"
    assert re.search(r"canary-\d+ against exact \w+: difference \S+, parted at token 2", trial.flat)


def test_a_block_given_away_too_early_is_a_breach_of_the_tags_and_its_request_gets_no_200(tmp_path: Path) -> None:
    trial = found("given_twice", "cancels", tmp_path, {"invariants", "answered"})
    judged = trial.judged("invariants")
    owner = judged["owner"].split(", ")[0]
    assert re.fullmatch(r"(chat|canary)-\d+", owner)
    assert re.search(rf"kv\.tags: {owner}: block \d+ \(index 0\), generation", trial.flat)
    assert owner in {each["request"] for each in trial.judged("answered")["evidence"]}
    assert trial.judged("tokens")["state"] == "PASS", "wrong KV must never be answered with 200"


def test_a_position_off_by_one_is_seen_by_the_numbers_alone(tmp_path: Path) -> None:
    trial = found("position_off_by_one", "cancels", tmp_path, {"tokens"})
    assert re.search(r"canary-\d+ against exact \w+: difference \S+, parted at token \d+", trial.flat)


def test_half_an_allocation_kept_by_a_refused_request_is_a_leak_with_its_id(tmp_path: Path) -> None:
    trial = found("kept_on_refusal", "faults", tmp_path, {"reclamation"})
    owners = re.findall(r"\w+-\d+", trial.judged("reclamation")["owner"])
    assert owners and re.search(rf"{owners[0]} drain audit: kv_blocks live \d, expected 0", trial.flat)
    assert "ended refused" in trial.flat
    assert trial.judged("reclamation")["figures"]["per_1000_fires"] > 0


def test_a_broken_stream_that_is_ended_politely_is_found_by_its_request_and_its_fault(tmp_path: Path) -> None:
    trial = found("polite_cut", "faults", tmp_path, {"answered", "tokens"}, maybe=frozenset({"tokens"}))
    assert re.search(r"(chat|canary)-\d+ was hit by cut#0 and yet looked finished", trial.flat)
    assert trial.judged("fired")["state"] == "UNKNOWN", "the injector fired, and nobody else saw a cut"


def test_an_error_in_band_that_the_server_books_as_ok_is_found_by_the_two_ledgers(tmp_path: Path) -> None:
    trial = found("error_called_ok", "faults", tmp_path, {"answered"})
    assert re.search(r"(chat|canary)-\d+ the client saw inband_error, the server wrote ok", trial.flat)


def test_a_deadline_that_sleeps_while_the_device_hangs_is_found_by_who_waited_longest(tmp_path: Path) -> None:
    trial = found("deadline_sleeps", "faults", tmp_path, {"e2e.max < 3s [all]"})
    judged = trial.judged("e2e.max < 3s [all]")
    assert judged["figures"]["value"] == pytest.approx(4, abs=0.9), "as long as the hang"
    assert judged["fault"] == "hang#0"


def found(bug: str, scenario: str, runs_dir: Path, judges: set[str], maybe: frozenset[str] = frozenset()) -> Trial:
    """The trial with this bug: planted, FAIL, and by exactly these judges, `maybe` without some."""
    trial = run(scenario, runs_dir, bug)
    assert f"planted: {bug} in runtime." in trial.log, "it was never planted, so nothing was tried"
    assert trial.exit == 1, trial.text
    assert trial.verdict["state"] == "FAIL"
    assert judges - maybe <= trial.failed <= judges, trial.text
    assert trial.text.count("\nFAIL  ") >= 1 and re.search(r"^FAIL  planted-", trial.text, re.MULTILINE)
    return trial
