"""The generated pairs of a trouble and a moment: the files are those of the generator, and each passes."""

import pytest

from scenarios import pairs
from scenarios.read import read_text
from tests.planted.virtual.trial import run

NAMES = sorted(pairs.texts())
BY_DAY = {"failing-copy-and-cancel", "slow-copy-and-deadline"}


def test_the_files_are_those_of_the_generator() -> None:
    assert {path.stem: path.read_text() for path in pairs.FOLDER.glob("*.toml")} == pairs.texts()
    assert len(NAMES) == len(pairs.TROUBLES) * len(pairs.MOMENTS)


def test_each_pair_is_sound_and_has_a_name_and_a_seed_of_its_own() -> None:
    read = [read_text(text).scenario for text in pairs.texts().values()]
    assert sorted(one.name for one in read) == NAMES
    assert len({one.seed for one in read}) == len(read)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in BY_DAY else pytest.mark.soak) for name in NAMES]
)
def test_a_healthy_runtime_passes_the_pair(name: str) -> None:
    verdict = run(str(pairs.FOLDER / f"{name}.toml")).verdict
    assert str(verdict.state) == "PASS", [judged.summary for judged in verdict.judges]
