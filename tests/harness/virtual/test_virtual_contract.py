"""Tensors damaged at a boundary of a step, in virtual time: mended or refused, felt, and nobody gets a wrong token."""

from pathlib import Path

import pytest

from tests.harness.virtual.test_virtual_runs import CALM, judges, small

MENDED = """
[[fault]]
id = "mended"
do = "contract.bind: corrupt align"
when = { at = "2s", times = 1 }
expect = { outcomes = ["ok"], marks = ["contract.copied"] }
"""
FEW = """
[[check]]
that = "fallback_rate < {limit}"
where = "all"
"""
REFUSED = """
[[fault]]
id = "refused"
do = "contract.bind: corrupt device"
when = { at = "6s", times = 2 }
expect = { outcomes = ["ok", "http_error"], victims = "all", marks = ["contract.refused"], recover = "5s" }
"""


def test_damaged_tensors_are_mended_or_end_their_batch_and_the_run_passes(tmp_path: Path) -> None:
    outcome = small(tmp_path, CALM + MENDED + REFUSED)
    found = judges(outcome)
    assert outcome.exit == 0, found
    assert {found[name] for name in ("answered", "tokens", "invariants", "fired", "reclamation")} == {"PASS"}


def test_a_refused_batch_that_nobody_declared_fails_the_run(tmp_path: Path) -> None:
    outcome = small(tmp_path, CALM, undeclared=("contract.bind: corrupt device",))
    assert outcome.exit == 1
    assert judges(outcome)["answered"] == "FAIL"


@pytest.mark.parametrize(("limit", "state"), [("5%", "PASS"), ("0.001%", "FAIL")])
def test_a_copy_that_mends_a_tensor_is_a_fallback_of_the_trial(tmp_path: Path, limit: str, state: str) -> None:
    outcome = small(tmp_path, CALM + MENDED + FEW.format(limit=limit))
    assert judges(outcome)[f"fallback_rate < {limit} [all]"] == state
