"""The scenarios we ship: short, sound, and what each says a FAIL would mean."""

import tomllib
from pathlib import Path

import pytest

from faults.resolve import resolve
from faults.spec import FaultSpec, Scope
from runtime.points import catalogue
from scenarios import library
from scenarios.problems import ScenarioProblems
from scenarios.read import read_text
from scenarios.rules import KnownNames

NAMES = (
    "azure-code-replay",
    "cancel-storm",
    "clean",
    "demo",
    "first-soak",
    "hang-and-recover",
    "hour-soak",
    "pool-oom",
    "pr-burst",
    "pr-contract",
    "pr-cut-and-oom",
    "pr-deadlines",
    "pr-device",
    "pr-leave",
    "pr-long-prompts",
    "pr-no-sharing",
    "pr-overload",
    "pr-priority",
    "pr-recompute",
    "pr-repeats",
    "pr-shared-prefix",
    "pr-swap",
    "pr-swap-storm",
    "your-server",
)


def test_the_library_has_these_scenarios() -> None:
    assert tuple(library.names()) == NAMES
    assert [entry.name for entry in library.entries()] == library.names()
    assert all(entry.means for entry in library.entries())


@pytest.mark.parametrize("name", NAMES)
def test_a_library_scenario_is_sound_short_and_says_what_a_fail_means(name: str) -> None:
    known = catalogue()
    points = {point: [action.name for action in known.get(point).actions] for point in known.names()}
    text = library.find(name).read_text(encoding="utf-8")
    scenario = read_text(text, name, KnownNames(points)).scenario
    assert scenario.name == name
    assert len(text.splitlines()) <= 80
    assert list(tomllib.loads(text))[:3] == ["schema", "name", "means"]
    assert text.startswith("#:schema ../scenario.schema.json\n")


@pytest.mark.parametrize("name", NAMES)
def test_the_faults_of_the_library_can_be_armed(name: str) -> None:
    """Point, action, argument, place and scope are ones that the runtime has."""
    faults = read_text(library.find(name).read_text(encoding="utf-8")).scenario.fault
    specs = [
        FaultSpec(fault.id, 0, fault.do, fault.place, scope=Scope(**fault.scope.model_dump()), ttl_s=fault.ttl)
        for fault in faults
    ]
    assert len(resolve(specs, catalogue())) == len(faults)


def test_the_first_soak_takes_about_two_minutes() -> None:
    phases = read_text(library.find("first-soak").read_text()).scenario.phases
    assert isinstance(phases.trial, float)
    assert phases.baseline + phases.trial + phases.recovery + phases.drain_max <= 100


def test_clean_breaks_nothing() -> None:
    assert read_text(library.find("clean").read_text()).scenario.fault == ()


def test_a_path_is_taken_as_it_is_and_a_name_from_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "clean.toml"
    own.write_text("")
    monkeypatch.chdir(tmp_path)
    assert library.find("clean.toml") == Path("clean.toml")
    assert library.find(own) == own
    assert library.find("clean") == library.FOLDER / "clean.toml"


def test_an_unknown_name_suggests_one() -> None:
    with pytest.raises(ScenarioProblems, match='did you mean "first-soak"'):
        library.find("first-soack")
    with pytest.raises(ScenarioProblems, match="a path, or one of: azure-code-replay"):
        library.find("zzz")


def test_a_folder_that_can_not_be_looked_into_is_a_problem_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refused)
    with pytest.raises(ScenarioProblems, match=r"locked/x\.toml  cannot look for the scenario: permission denied"):
        library.find("locked/x.toml")
