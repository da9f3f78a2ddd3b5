from harness.trial.abort import AbortWatch
from scenarios.expr import parse_abort

NS = 1_000_000_000


def watch(text: str) -> AbortWatch:
    return AbortWatch([parse_abort(text)])


def test_rule_must_hold_for_its_whole_duration_without_a_break():
    rules = watch("errors > 20% for 10s")
    assert rules.tick(0, {"errors": 0.5}) is None
    assert rules.tick(9 * NS, {"errors": 0.5}) is None
    assert rules.tick(10 * NS, {"errors": 0.1}) is None
    assert rules.tick(11 * NS, {"errors": 0.5}) is None
    assert rules.tick(20 * NS, {"errors": 0.5}) is None
    assert "errors = 0.5" in (rules.tick(21 * NS, {"errors": 0.5}) or "")


def test_no_data_is_no_reason_to_abort():
    rules = watch("host.disk_free < 2GiB for 1s")
    assert rules.tick(0, {"host.disk_free": 1.0}) is None
    assert rules.tick(5 * NS, {}) is None
    assert rules.tick(6 * NS, {"host.disk_free": 1.0}) is None
    assert rules.tick(7 * NS, {"host.disk_free": 1.0}) is not None
