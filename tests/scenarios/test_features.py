"""What a scenario uses comes out by name, and every name is in the list that serving parts compare with."""

from pathlib import Path

import pytest

from scenarios import library
from scenarios.features import NAMES, features
from scenarios.read import read_text
from tests.scenarios.documents import SOUND
from tests.scenarios.test_schema import FULL


def names(text: str) -> set[str]:
    return {feature.name for feature in features(read_text(text).scenario)}


def test_a_plain_scenario_uses_only_what_every_run_has() -> None:
    assert names(SOUND) == {"drive.live", "target.builtin", "phases.trial.time", "load.arrivals.poisson"}


def test_everything_that_is_written_is_named() -> None:
    assert names(FULL) >= {
        "target.knobs",
        "target.groups",
        "target.groups.guarantee",
        "target.groups.key_env",
        "phases.trial.completed",
        "quiesce",
        "load.arrivals.daily",
        "load.arrivals.closed",
        "load.arrivals.constant",
        "load.probe",
        "load.group",
        "load.cancel.token",
        "load.tokens.lognormal",
        "fault.when.at",
        "fault.when.after",
        "fault.when.every",
        "fault.when.for",
        "fault.when.space",
        "fault.when.probability",
        "fault.recover.completed",
        "fault.victims.all",
        "check.where.fault",
        "limits.rate",
        "limits.wall",
        "abort",
    }


@pytest.mark.parametrize("text", [SOUND, FULL, *(library.find(name).read_text() for name in library.names())])
def test_no_feature_is_missing_from_the_list_of_names(text: str) -> None:
    assert names(text) <= NAMES


def test_a_feature_says_where_it_stands() -> None:
    text = 'drive = "virtual"\n' + SOUND.replace(
        'rate = "2/s"', 'rate = "2/s", cancel = [{ share = 0.1, at = "token 3" }]'
    )
    document = read_text(text, "s.toml")
    where = {feature.name: feature.where for feature in features(document.scenario)}
    assert where["drive.virtual"] == "drive"
    assert where["load.cancel.token"] == "load[0].cancel[0].at"
    [found] = [feature for feature in features(document.scenario) if feature.name == "load.cancel.token"]
    assert document.source.problem(found.path, "not served").line == 6


def test_every_name_is_in_a_line_of_documentation_or_a_table_of_the_schema() -> None:
    """A renamed key would leave a dead name behind; each must still be a word of the schema."""
    schema = (Path(library.__file__).parent / "scenario.schema.json").read_text()
    for name in NAMES:
        word = name.split(".")[-1]
        assert word in schema or word in ("time", "fault", "builtin", "token", "tokens"), name
