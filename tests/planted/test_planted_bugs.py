"""Real bugs in the real server, found by the real command: the right judge says so and names who it was.

Each bug is a small file in `bugs/` that models one of the field; `site/` plants it. The healthy runtime passes the
same scenarios, so it is the bug that is found and not the scenario. Bugs that different judges must find share a run:
one FAIL must not hide another.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.planted.live import Trial, run

pytestmark = [pytest.mark.slow, pytest.mark.live]


@dataclass(frozen=True)
class Planned:
    """One run: the bugs planted in it, and exactly the judges that must say FAIL. `may` depend on whom a bug hits."""

    scenario: str
    bugs: tuple[str, ...]
    judges: frozenset[str]
    may: frozenset[str] = frozenset()


TRIALS = (
    Planned("cancels", ("kept_on_cancel", "lost_event"), frozenset({"reclamation", "answered", "tokens"})),
    Planned("cancels", ("early_done",), frozenset({"answered", "tokens"}), may=frozenset({"figures"})),
    Planned("cancels", ("swapped_projections",), frozenset({"tokens"})),
    Planned("cancels", ("given_twice",), frozenset({"invariants", "answered"})),
    Planned("faults", ("kept_on_refusal", "error_called_ok"), frozenset({"reclamation", "answered"})),
    Planned("faults", ("deadline_sleeps", "position_off_by_one"), frozenset({"deadline", "tokens"})),
    Planned("leaving", ("hang_up_ignored",), frozenset({"hang_ups"})),
    Planned("leaving", ("hang_up_seen_at_the_end",), frozenset({"hang_ups"})),
    Planned("leaving", ("cancelled_called_ok",), frozenset({"hang_ups"})),
    Planned("leaving", ("row_kept_after_cancel",), frozenset({"hang_ups"})),
    Planned("leaving", ("metrics_lie",), frozenset({"figures"})),
    Planned("faults", ("polite_cut",), frozenset({"answered"}), may=frozenset({"tokens", "figures"})),
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trial]:
    """The trial in which a bug was planted, run once: FAIL, exit 1, by the judges that are meant to find it."""
    trials: dict[Planned, Trial] = {}

    def found(bug: str) -> Trial:
        planned = next(each for each in TRIALS if bug in each.bugs)
        if planned not in trials:
            trials[planned] = run(planned.scenario, tmp_path_factory.mktemp(bug), planned.bugs)
        trial = trials[planned]
        for each in planned.bugs:
            assert f"planted: {each} in runtime." in trial.log, f"{each} was never planted, so nothing was tried"
        assert trial.exit == 1, trial.text
        assert trial.verdict["state"] == "FAIL"
        assert trial.failed - planned.may == planned.judges, trial.text
        assert re.search(rf"^FAIL  planted-{planned.scenario} · .* · exit 1$", trial.text, re.MULTILINE)
        for judge in planned.judges:
            assert re.search(rf"^FAIL  {re.escape(judge)}$", trial.text, re.MULTILINE), trial.text
        return trial

    return found


@pytest.mark.parametrize("scenario", sorted({each.scenario for each in TRIALS}))
def test_the_healthy_runtime_passes_the_scenario(scenario: str, tmp_path: Path) -> None:
    trial = run(scenario, tmp_path)
    assert trial.exit == 0, trial.text
    assert trial.verdict["state"] == "PASS"
    assert "planted" not in trial.log


def test_blocks_kept_on_a_cancel_in_prefill_are_a_leak_with_the_clients_ids_and_a_rate(
    found: Callable[[str], Trial],
) -> None:
    trial = found("kept_on_cancel")
    judged = trial.judged("reclamation")
    owners = re.findall(r"\w+-\d+", judged["owner"])
    assert owners and all(owner.startswith("fickle-") for owner in owners)
    assert judged["figures"]["per_1000_cancels"] > 0
    assert re.search(rf"blocks too many \(live\) at the drain, held by {owners[0]}", trial.flat)
    assert re.search(r"observed \+\d+ blocks, .* per 1,000 cancels", trial.flat)
    assert "cancelled in prefill: client_gone; " in trial.flat


def test_an_event_that_never_arrives_is_counted_by_the_client_and_seen_in_the_canaries(
    found: Callable[[str], Trial],
) -> None:
    trial = found("lost_event")
    assert re.search(r"the client counted \d+ tokens, the server \d+", trial.flat)
    assert re.search(r"canary-\d+ against exact \w+: difference \S+, parted at token 2", trial.flat)


def test_a_stream_that_ends_early_as_if_finished_breaks_the_contract_though_every_client_saw_ok(
    found: Callable[[str], Trial],
) -> None:
    trial = found("early_done")
    hit = [each["request"] for each in trial.judged("answered")["evidence"] if each["request"]]
    assert hit and all(re.fullmatch(r"(chat|fickle|canary)-\d+", request) for request in hit)
    assert re.search(rf"{hit[0]} the client counted 3 tokens, the server \d+", trial.flat)
    assert "truncated" not in trial.text


def test_weights_that_every_process_loads_wrongly_are_found_by_the_oracle(found: Callable[[str], Trial]) -> None:
    trial = found("swapped_projections")
    assert "no canary is right, so the model itself is computed wrongly" in trial.flat
    assert trial.judged("tokens")["fault"] is None


@pytest.mark.soak  # the same kind of bug is found without a server in harness/virtual/test_virtual_runs.py
def test_a_block_given_away_too_early_is_a_breach_of_the_tags_and_its_request_gets_no_200(
    found: Callable[[str], Trial],
) -> None:
    trial = found("given_twice")
    owner = trial.judged("invariants")["owner"].split(", ")[0]
    assert re.fullmatch(r"(chat|canary)-\d+", owner)
    assert re.search(rf"kv\.tags: {owner}: block \d+ \(index 0\), generation", trial.flat)
    assert f"owner {owner}" in trial.flat
    assert owner in {each["request"] for each in trial.judged("answered")["evidence"]}
    assert trial.judged("tokens")["state"] == "PASS", "wrong KV must never be answered with 200"


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        ("hang_up_ignored", r"\d+ of \d+ answers were generated to their end after their clients had left: \d+ tokens"),
        ("hang_up_seen_at_the_end", r"\d+ of \d+ answers were generated to their end after their clients had left"),
        ("cancelled_called_ok", r"the server saw the client leave \(client_gone\) and wrote ok"),
        ("row_kept_after_cancel", r"\d+ tokens were generated after the server saw that its client had left, 4 may be"),
    ],
)
def test_a_server_that_goes_on_for_clients_that_left_is_found_by_request_and_figure(
    found: Callable[[str], Trial], bug: str, words: str
) -> None:
    judged = found(bug).judged("hang_ups")
    assert judged["owner"].startswith("fickle-")
    assert any(re.search(words, each["text"]) for each in judged["evidence"]), judged["evidence"]


def test_figures_of_the_metrics_page_that_are_not_true_are_found_by_their_names(found: Callable[[str], Trial]) -> None:
    judged = found("metrics_lie").judged("figures")
    wrong = set(judged["observed"].removeprefix("wrong: ").split(", "))
    # KV use at 0 needs three samples in which requests run, which a short trial may not have.
    assert wrong - {"kv.usage"} == {"server.generation_tokens", "server.prompt_tokens", "server.running"}


def test_half_an_allocation_kept_when_the_rest_is_refused_is_a_leak_with_its_id(found: Callable[[str], Trial]) -> None:
    trial = found("kept_on_refusal")
    judged = trial.judged("reclamation")
    owners = re.findall(r"\w+-\d+", judged["owner"])
    assert owners and re.search(rf"{owners[0]} drain audit: kv_blocks live \d+, expected 0", trial.flat)
    assert "ended" in trial.flat.partition("last events:")[2]
    assert judged["figures"]["per_1000_fires"] > 0


def test_an_error_in_band_that_the_server_books_as_ok_is_found_by_the_two_ledgers(
    found: Callable[[str], Trial],
) -> None:
    trial = found("error_called_ok")
    assert re.search(r"(chat|canary)-\d+ the client saw inband_error, the server wrote ok", trial.flat)
    assert trial.judged("answered")["fault"].startswith("error#0, which hit ")


def test_a_deadline_that_sleeps_while_the_device_hangs_is_found_by_who_waited_longest(
    found: Callable[[str], Trial],
) -> None:
    trial = found("deadline_sleeps")
    judged = trial.judged("deadline")
    assert judged["figures"]["slowest_s"] == pytest.approx(5, abs=2), "as long as the hang"
    assert judged["fault"].startswith("hang#0, which ")
    assert judged["evidence"][0]["request"].startswith(("chat-", "canary-"))


@pytest.mark.soak  # the same bug is found without a server in virtual/test_planted_on_torch.py
def test_a_position_off_by_one_is_seen_by_the_numbers_alone(found: Callable[[str], Trial]) -> None:
    trial = found("position_off_by_one")
    assert re.search(r"canary-\d+ against exact \w+: difference \S+, parted at token \d+", trial.flat)
    assert trial.judged("invariants")["state"] == "PASS"


def test_a_broken_stream_that_is_ended_politely_is_found_by_its_request_and_its_fault(
    found: Callable[[str], Trial],
) -> None:
    trial = found("polite_cut")
    assert re.search(r"(chat|canary)-\d+ was hit by cut#0 and yet looked finished", trial.flat)
    assert trial.judged("fired")["state"] == "UNKNOWN", "the injector fired, and nobody else saw a cut"
