"""The public traces themselves. Without them these tests are skipped or fail: see `tests.public_traces`."""

from itertools import pairwise
from pathlib import Path

import pytest

from scenarios.arrivals import arrivals
from scenarios.traces import read_trace
from tests.public_traces import CODE, CONV, MOONCAKE, public_traces
from tests.scenarios.traces import load_of


@pytest.mark.parametrize(
    ("name", "rows", "prompt_most", "span_s"),
    [
        (CODE, 8819, 7437, 3435.948),
        (CONV, 19366, 14050, 3501.722),
        (MOONCAKE, 12031, 126195, 3536.999),
    ],
)
def test_a_public_trace_reads_whole(name: str, rows: int, prompt_most: int, span_s: float) -> None:
    found = list(read_trace(public_traces().file(name)))
    assert len(found) == rows
    assert max(row.prompt_tokens for row in found) == prompt_most
    assert found[-1].t_s == pytest.approx(span_s, abs=0.001)


def test_the_first_600_s_of_the_code_trace_keep_their_silences() -> None:
    times_s = [row.t_s for row in arrivals(load_of(public_traces().file(CODE)), 7, (0, 600))]
    gaps_s = sorted((later - earlier for earlier, later in pairwise(times_s)), reverse=True)
    assert [round(gap_s) for gap_s in gaps_s[:3]] == [144, 87, 39]
    assert len(times_s) == 1482


def test_a_mooncake_replay_shares_the_prefixes_that_were_recorded() -> None:
    load = load_of(public_traces().file(MOONCAKE), prompt_tokens=[1, 1000], trace__token_scale=0.1)
    found = list(arrivals(load, 7, (0, 60)))
    assert len({row.parts[0].seed for row in found}) < len(found)
    assert all(sum(part.tokens for part in row.parts) == row.prompt_tokens for row in found)


def test_a_library_scenario_finds_its_trace() -> None:
    scenario = public_traces().scenario("azure-code-replay").scenario
    assert [Path(load.trace.file) for load in scenario.load if load.trace] == [public_traces().file(CODE)]


def test_the_faults_of_the_code_replay_open_while_requests_come() -> None:
    """Load starts with warmup, so trial time is trace time less warmup (at most `max`) and baseline."""
    scenario = public_traces().scenario("azure-code-replay").scenario
    times_s = [row.t_s for row in arrivals(scenario.load_named("code"), scenario.seed, (0, 700))]
    for warmup_s in (30.0, scenario.phases.warmup.max):
        for fault in scenario.fault:
            assert fault.when.at is not None
            opens_s = warmup_s + scenario.phases.baseline + fault.when.at
            nearby = [t_s for t_s in times_s if opens_s <= t_s < opens_s + 20]
            assert len(nearby) > fault.when.skip + fault.when.times, (fault.id, warmup_s, len(nearby))
