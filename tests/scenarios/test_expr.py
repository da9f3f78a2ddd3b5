"""Checks and aborts: grammar, units, suggestions, and the same words as the judges."""

import pytest

from assertions.expression import METRICS as JUDGED
from assertions.expression import parse as parse_judged
from scenarios.expr import Condition, parse_abort, parse_condition
from scenarios.metrics import METRICS, Unit, full_names
from scenarios.units import InvalidValue

EXAMPLES = {
    Unit.SECONDS: "800ms",
    Unit.SHARE: "1%",
    Unit.PER_SECOND: "300/s",
    Unit.BYTES: "2GiB",
    Unit.BYTES_PER_HOUR: "4MiB/h",
    Unit.COUNT_PER_HOUR: "1/h",
    Unit.SHARE_PER_HOUR: "2%/h",
    Unit.COUNT: "200",
}


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("ttft.p99 < 800ms", Condition("ttft", "p99", "<", 0.8, Unit.SECONDS)),
        ("errors.outside<=1%", Condition("errors.outside", None, "<=", 0.01, Unit.SHARE)),
        ("errors <= 0.02", Condition("errors", None, "<=", 0.02, Unit.SHARE)),
        ("leak.rss_anon < 4MiB/h", Condition("leak.rss_anon", None, "<", 4194304.0, Unit.BYTES_PER_HOUR)),
        ("leak.fragmentation < 2%/h", Condition("leak.fragmentation", None, "<", 0.02, Unit.SHARE_PER_HOUR)),
        ("leak.fds < 1/h", Condition("leak.fds", None, "<", 1.0, Unit.COUNT_PER_HOUR)),
        ("drift.ttft.p99 < 120%", Condition("drift.ttft", "p99", "<", 1.2, Unit.SHARE)),
        ("throughput.tokens > 300/s", Condition("throughput.tokens", None, ">", 300.0, Unit.PER_SECOND)),
        ("host.disk_free >= 2GiB", Condition("host.disk_free", None, ">=", 2.0**31, Unit.BYTES)),
    ],
)
def test_a_condition_comes_out_in_the_metrics_own_unit(text: str, condition: Condition) -> None:
    assert parse_condition(text) == condition


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("ttft.p98 < 1s", 'did you mean "ttft.p99"?'),
        ("ttft < 1s", "add a stat: ttft.p99"),
        ("ttfs.p99 < 1s", 'did you mean "ttft.p99"?'),
        ("latency < 1s", "metrics are "),
        ("ttft.p99 == 1s", "use < <= > or >="),
        ("ttft.p99 < 800", 'write "800s"'),
        ("ttft.p99", 'write it such as "ttft.p99 < 800ms"'),
        ("errors < 2", 'for 2 % write "2%"'),
        ("errors < nan", "write it such as 1%"),
        ("leak.rss_anon < 4MiB", "write it such as 4MiB/h"),
        ("throughput.tokens > 300", "write it such as 300/s"),
        ("errors.p99 < 1%", 'did you mean "errors"?'),
    ],
)
def test_a_condition_that_cannot_be_read_comes_with_its_remedy(text: str, remedy: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_condition(text)
    assert refused.value.remedy.startswith(remedy), refused.value.remedy


def test_an_abort_needs_a_duration_and_a_live_metric() -> None:
    abort = parse_abort("errors.outside > 20% for 2m")
    assert (abort.when.name, abort.when.value, abort.for_s) == ("errors.outside", 0.2, 120.0)
    with pytest.raises(InvalidValue, match='write "errors > 1% for 30s"'):
        parse_abort("errors > 1%")
    with pytest.raises(InvalidValue, match="only known after the run"):
        parse_abort("leak.fds > 1/h for 10s")


@pytest.mark.parametrize(
    ("op", "below", "equal", "above"),
    [("<", True, False, False), ("<=", True, True, False), (">", False, False, True), (">=", False, True, True)],
)
def test_each_operator_compares(op: str, below: bool, equal: bool, above: bool) -> None:
    condition = parse_condition(f"errors {op} 50%")
    assert [condition.holds(value) for value in (0.4, 0.5, 0.6)] == [below, equal, above]


def test_the_judges_know_the_same_metrics_with_the_same_stats() -> None:
    assert {name: metric.stats for name, metric in METRICS.items()} == {name: row[1] for name, row in JUDGED.items()}


@pytest.mark.parametrize("name", full_names())
def test_the_judges_read_each_condition_with_the_same_value(name: str) -> None:
    metric = METRICS.get(name) or METRICS[name.rpartition(".")[0]]
    text = f"{name} < {EXAMPLES[metric.unit]}"
    ours, theirs = parse_condition(text), parse_judged(text)
    assert (ours.metric, ours.stat, ours.op, ours.value) == (theirs.metric, theirs.stat, theirs.op, theirs.value)
