"""A simulated device that gets slower FAILs drift with its owner, and a steady one PASSes."""

from functools import partial
from pathlib import Path

import pytest

from assertions.verdict import State
from harness.virtual.drive import drive
from tests.planted.virtual import trial as trials
from tests.planted.virtual.trial import Trial

AGES = Path(__file__).parent / "ageing" / "ages.toml"
CHECKS = {
    "drift.ttft.p50 < 10% [probe]": "server, prefill",
    "drift.tpot.p50 < 10% [probe]": "server, decode",
    "drift.e2e.p95 < 10% [probe]": "server, decode",
}


def run(patch: pytest.MonkeyPatch, slowing: float | None) -> Trial:
    """Run `ageing/ages.toml`; with `slowing` a launch costs this share more at the end of the trial."""
    patch.setattr(trials, "drive", partial(drive, slowing=slowing))
    return trials.run(str(AGES))


@pytest.mark.slow
def test_a_device_that_ages_fails_with_the_part_that_got_slower_and_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = run(monkeypatch, slowing=0.2)
    assert trial.failed == set(CHECKS)
    for name, owner in CHECKS.items():
        judged = trial.judged(name)
        assert (judged.owner or "").startswith(owner)
        assert judged.figures["share"] == pytest.approx(0.2, abs=0.03)
        assert "first quarter" in judged.summary


@pytest.mark.slow
def test_a_steady_device_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = run(monkeypatch, slowing=None)
    assert trial.verdict.state is State.PASS
    assert all(trial.judged(name).state is State.PASS for name in CHECKS)
