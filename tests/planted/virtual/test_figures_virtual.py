"""A gauge or counter that is not true is found in virtual time, with its name, what was expected, and when."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from assertions.verdict import Judged, State
from runtime.engine import engine
from runtime.server.admission import Admission
from tests.planted.site.sitecustomize import bug_of
from tests.planted.virtual.trial import run

SCENARIO = str(Path(__file__).parent / "figures" / "figures.toml")
LIES: ModuleType = bug_of("metrics_lie")
Plant = Callable[[pytest.MonkeyPatch], None]


def lie(name: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(engine.Engine, "_publish", engine.Engine._publish)  # put back afterwards
        LIES.plant(engine, (getattr(LIES, name),))

    return plant


def cancels_not_counted(patch: pytest.MonkeyPatch) -> None:
    """Z118: the abort path bypasses the statistics."""
    write = Admission._write

    def _write(self, row, session):
        write(self, row, session)
        self.outcomes["cancelled"] = 0

    patch.setattr(Admission, "_write", _write)


def judged(plant: Plant) -> Judged:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        return run(SCENARIO).judged("figures")


@pytest.mark.parametrize(
    ("series", "plant", "words"),
    [
        ("server.running", lie("running_never_falls"), r"server.running at quiesce \d is \d+, expected 0: the audit"),
        ("server.generation_tokens", lie("tokens_count_twice"), r"at quiesce \d is \d+, expected \d+: tokens out in"),
        ("server.generation_tokens", lie("tokens_of_nobody"), r"at quiesce \d is \d+, expected \d+: tokens out in"),
        ("server.prompt_tokens", lie("prompt_tokens_fall"), r"is a counter and fell from \d+ to \d+ with no restart"),
        ("server.preemptions", lie("preemptions_not_counted"), r"at \S+ ?\d? is 0, expected \d+: preemptions in"),
        ("kv.usage", lie("kv_use_is_zero"), r"kv.usage is 0 in all of \d+ samples in which requests run"),
        ("server.ended[cancelled]", cancels_not_counted, r"at quiesce \d is 0, expected \d+: rows of the server's"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_figure_that_is_not_true_fails_with_its_name_and_what_was_expected(
    series: str, plant: Plant, words: str
) -> None:
    found = judged(plant)
    assert found.state is State.FAIL, found.summary
    assert found.observed == f"wrong: {series}"
    assert found.owner == series and found.since_ns
    assert any(re.search(words, each.text) for each in found.evidence), found.evidence


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_the_figures_of_the_clean_runtime_are_true(seed: int) -> None:
    trial = run(SCENARIO, seed)
    found = trial.judged("figures")
    assert found.state is State.PASS, found.evidence
    for name in ("server.preemptions", "prefix.hits", "kv.cached_blocks", "server.ended[cancelled]", "kv.usage"):
        assert name in found.summary
    assert trial.judged("hang_ups").state is State.PASS
