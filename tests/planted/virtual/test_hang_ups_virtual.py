"""A server that goes on for clients that have left is found in virtual time, by the request and a figure."""

import importlib
from pathlib import Path

import pytest

from assertions.verdict import Judged, State
from tests.planted.site.sitecustomize import bug_of
from tests.planted.virtual.trial import run

LEAVING, IMPATIENT = (str(Path(__file__).parent / "hang_ups" / f"{name}.toml") for name in ("leaving", "impatient"))
CHANGED = {"runtime.server.session": "Session", "runtime.engine.engine": "Engine"}


def found(scenario: str, name: str) -> Judged:
    """The judge's words with one bug of the live trials planted, which is gone afterwards."""
    bug = bug_of(name)
    module = importlib.import_module(bug.MODULE)
    changed = getattr(module, CHANGED[bug.MODULE])
    with pytest.MonkeyPatch.context() as patch:
        for method, as_it_is in list(vars(changed).items()):
            if callable(as_it_is) and not method.startswith("__"):
                patch.setattr(changed, method, as_it_is)
        bug.plant(module)
        judged = run(scenario).judged("hang_ups")
    assert judged.state is State.FAIL, judged.summary
    assert judged.owner and judged.since_ns
    return judged


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        ("hang_up_ignored", "after its client had left; the server never saw it"),
        ("hang_up_seen_at_the_end", "after its client had left; the server saw it"),
        ("cancelled_called_ok", "the server saw the client leave (client_gone) and wrote ok"),
        ("row_kept_after_cancel", "tokens were generated after the server saw that its client had left, 4 may be"),
    ],
)
def test_each_way_to_go_on_for_a_client_that_left_is_found(bug: str, words: str) -> None:
    judged = found(LEAVING, bug)
    assert words in judged.summary
    assert str(judged.owner).startswith("fickle-")


def test_generating_on_after_a_clients_own_timeout_is_found() -> None:
    judged = found(IMPATIENT, "hang_up_ignored")
    assert "the server never saw it" in judged.summary
    assert str(judged.owner).startswith("hasty-")


@pytest.mark.parametrize("scenario", [LEAVING, IMPATIENT])
@pytest.mark.parametrize("seed", [5, 6, 7])
def test_the_clean_runtime_ends_every_request_with_its_client(scenario: str, seed: int) -> None:
    judged = run(scenario, seed).judged("hang_ups")
    assert judged.state is State.PASS, judged.summary
    assert judged.figures["left"] == judged.figures["known"] > 10
    assert judged.figures["after_s_max"] == 0
