"""Every point of the catalogue is crossed, and every action of it is fired and felt, in a trial: by what happened at
run time, not by what the source says."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assertions.verdict import State
from faults import Effect, Faults, Point
from faults.points import Shown
from faults.spec import SCOPE_NAMES
from runtime.contract.points import GRAPHS
from runtime.contract.step import ModelShape, step_contracts
from runtime.counters import COUNTERS
from runtime.points import PLANNED, catalogue
from tests.faults.trials import points
from tests.faults.trials.live import run_live
from tests.faults.trials.virtual import Trial, run

VIRTUAL = (*points.CROWDED, *points.CALM, *points.PACKED)
LIVE_ONLY = {point for point, _, _ in (*points.LIVE, *points.LOADING)} - {point for point, _, _ in VIRTUAL}
PAGED = ("decode_by_page", "decode_mixed_by_page")
"""Boundaries of a step whose KV pages stay in place: contexts longer than those of these trials."""
LOADING = [pytest.param(points.LOADING[0], marks=pytest.mark.soak), points.LOADING[1]]
"""An error ends the server as a wrong digest does, so it is tried in the nights only."""
Seen = dict[str, dict[str, set[str]]]
"""Of each point that was crossed: each attribute with the values that it had."""


class Ran:
    """The virtual trials, and what an instrumented injector saw of them."""

    def __init__(self, folder: Path) -> None:
        self.seen: Seen = {}
        self.places: dict[str, set[str]] = defaultdict(set)
        with pytest.MonkeyPatch.context() as patch:
            self._instrument(patch)
            self.crowded = run(points.crowded(), folder / "crowded")
            self.calm = run(points.calm(), folder / "calm")
            self.packed = run(points.packed(), folder / "packed")

    def _instrument(self, patch: pytest.MonkeyPatch) -> None:
        fire = Faults.fire

        def noted(faults: Faults, point: Point, **crossing: Any) -> Effect | None:
            values = self.seen.setdefault(point.name, defaultdict(set))
            for name in SCOPE_NAMES:
                if crossing.get(name) is not None:
                    values[name].add(str(crossing[name]))
            self.places[point.name].add(crossing.get("place", "before"))
            return fire(faults, point, **crossing)

        patch.setattr(Faults, "fire", noted)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("points"))


def test_the_trials_fire_each_action_of_the_catalogue_and_no_other() -> None:
    known = catalogue()
    declared = {(name, action.name) for name in known.names() for action in known.get(name).actions}
    tried = {(point, action.split()[0]) for point, action, _ in (*VIRTUAL, *points.LIVE, *points.LOADING)}
    assert tried == declared


def test_each_kind_of_damage_that_an_action_knows_is_tried() -> None:
    known = catalogue()
    declared = {(name, word) for name in known.names() for action in known.get(name).actions for word in action.words}
    tried = {(point, action.split()[-1]) for point, action, _ in (*VIRTUAL, *points.LOADING)}
    assert declared <= tried


@pytest.mark.parametrize("name", ["crowded", "calm", "packed"])
def test_each_fault_of_a_virtual_trial_fires_and_is_felt(ran: Ran, name: str) -> None:
    trial: Trial = getattr(ran, name)
    fired = trial.judged("fired")
    assert fired.state is State.PASS, fired.summary
    assert trial.not_passed == set()


def test_the_points_crossed_at_run_time_are_those_of_the_catalogue(ran: Ran) -> None:
    assert set(ran.seen) == set(catalogue().names()) - LIVE_ONLY


def test_the_places_crossed_at_run_time_are_those_of_the_catalogue(ran: Ran) -> None:
    known = catalogue()
    for name, places in ran.places.items():
        declared = {place for action in known.get(name).actions for place in action.placements}
        assert places == declared, name


def test_each_crossing_shows_what_its_point_says_that_it_shows(ran: Ran) -> None:
    known = catalogue()
    for name, seen in ran.seen.items():
        for attribute, values in seen.items():
            assert values <= _allowed(known.get(name), attribute, values), f"{name} shows {attribute} = {values}"


def test_each_value_that_a_scope_may_name_is_shown_by_some_crossing(ran: Ran) -> None:
    known = catalogue()
    for name, seen in ran.seen.items():
        for attribute, value in _declared(known.get(name).scope):
            assert attribute in seen, f"{name} never shows its {attribute}"
            if value not in PAGED:
                assert value in ("", *seen[attribute]), f"{name} never shows {attribute} = {value}"


def test_the_symptom_of_each_action_is_something_that_some_part_can_show() -> None:
    known = catalogue()
    for name in known.names():
        for action in known.get(name).actions:
            form, _, word = action.symptom.partition(":")
            assert form in ("mark", "outcome", "audit", "reply", "event", "canary"), f"{name}: {action.name}"
            assert form != "mark" or word in COUNTERS, f"{name}: {action.name} shows {word}, which nobody counts"


def test_planned_points_do_not_exist_yet() -> None:
    assert not set(PLANNED) & set(catalogue().names())


def test_the_graphs_that_a_scope_may_name_are_the_boundaries_of_a_step() -> None:
    assert {one.graph for one in step_contracts(ModelShape())} == set(GRAPHS)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.timeout(300)
def test_what_only_a_real_server_crosses_is_fired_and_felt_in_a_live_trial(tmp_path: Path) -> None:
    states, fired = _live(tmp_path, points.live())
    assert {states[name] for name in ("answered", "alive", "invariants", "fired")} == {"PASS"}
    assert fired == {(point, action) for point, action, _ in points.LIVE}


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", LOADING, ids=lambda fault: fault[1])
def test_weights_that_are_read_wrong_end_the_server_before_it_serves(tmp_path: Path, fault: points.Fault) -> None:
    states, fired = _live(tmp_path, points.loading(fault))
    assert states["fired"] == "PASS"
    assert fired >= {fault[:2]}


def _live(folder: Path, scenario: str) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """The judges' states and the (point, action) that fired, of a trial by the installed command."""
    ran = run_live(scenario, folder)
    words = [text.replace(":", "").split() for (text,) in ran.rows("SELECT evidence FROM fire")]
    stops = [next(n for n, word in enumerate(each) if word in ("before", "in_flight", "after")) for each in words]
    return ran.states, {(each[0], " ".join(each[1:stop])) for each, stop in zip(words, stops, strict=True)}


def _declared(scope: tuple[Shown, ...]) -> Iterator[tuple[str, str]]:
    """Each attribute, with each of its values ("": any)."""
    for shown in scope:
        for attribute, values in shown.items():
            for value in values or ("",):
                yield attribute, value


def _allowed(point: Point, attribute: str, values: set[str]) -> set[str]:
    found = {value for name, value in _declared(point.scope) if name == attribute}
    return values if "" in found else found
