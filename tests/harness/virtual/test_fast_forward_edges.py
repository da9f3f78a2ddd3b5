"""Moments at which skipped steps once gave another history than steps: each pair of runs is held together."""

from pathlib import Path

import pytest

from harness.options import RunOptions
from harness.run import run
from tests.harness.virtual.both import skipping_and_stepping

FRAME = """
schema = 1
name = "edge"
means = "x"
drive = "virtual"
seed = {seed}
target = {{ knobs = {{ {knobs}, request_timeout_s = 60 }} }}
phases = {{ warmup = {{ completed = 1 }}, baseline = "1s", trial = "8s", recovery = "1s", drain_max = "4s" }}
canary = {{ every = "{canary}" }}
{load}
"""
EDGES = {
    "who comes is refused in the middle of a run": FRAME.format(
        seed=979,
        canary="3s",
        knobs="kv_blocks = 25, token_budget = 512, seqs_max = 1, waiting_max = 12",
        load="""
[[load]]
id = "l0"
rate = "40/s"
prompt_tokens = [1, 300]
output_tokens = [1, 60]
stream = 0.0
in_flight_max = 100
cancel = [{ share = 0.24, at = "queued" }]
""",
    ),
    "a fault in the contract's cache is armed when most steps were skipped": FRAME.format(
        seed=814,
        canary="0.25s",
        knobs="kv_blocks = 80, block_tokens = 1, token_budget = 2048, seqs_max = 2, waiting_max = 3, "
        'prefix_cache = false, expected_output = 0.1, preemption = "fail"',
        load="""
[[load]]
id = "l0"
rate = "3/s"
prompt_tokens = [1, 2]
output_tokens = [10, 30]
timeout = "0.4s"
[[fault]]
id = "f0"
do = "contract.cache: lie"
when = { every = "2s", times = 1, for = "0.25s" }
expect = { outcomes = ["ok", "refused", "timeout"], victims = "all", recover = "1s" }
""",
    ),
    "a fault is armed where a run would be longer than a launch may be late": FRAME.format(
        seed=171,
        canary="3s",
        knobs="kv_blocks = 20, token_budget = 2048, seqs_max = 4, late_s = 0.003, expected_output = 0.3, "
        'preemption = "fail"',
        load="""
[[load]]
id = "l0"
rate = "20/s"
prompt_tokens = [2, 2]
output_tokens = [1, 150]
shared_prefix = 0.7
stream = 0.7
in_flight_max = 2
[[fault]]
id = "f0"
do = "device.launch: hang 0.01s"
when = { every = "2s" }
expect = { outcomes = ["ok", "refused", "timeout"], victims = "all", recover = "1s" }
""",
    ),
    "a prompt is computed again to its end": FRAME.format(
        seed=157,
        canary="3s",
        knobs="kv_blocks = 62, block_tokens = 1, token_budget = 8, seqs_max = 3, expected_output = 0, "
        'preemption = "recompute"',
        load="""
[[load]]
id = "l2"
rate = "20/s"
prompt_tokens = [2, 2]
output_tokens = [1, 60]
shared_prefix = 0.3
""",
    ),
}


FAST = "a fault in the contract's cache is armed when most steps were skipped"


@pytest.mark.parametrize("edge", [pytest.param(edge, marks=() if edge == FAST else pytest.mark.slow) for edge in EDGES])
def test_the_history_is_the_same_without_fast_forward(edge: str, tmp_path: Path) -> None:
    scenario = tmp_path / "edge.toml"
    scenario.write_text(EDGES[edge])
    options = RunOptions(str(scenario), tmp_path / "runs")
    skipping, stepping = skipping_and_stepping(lambda: run(options, say=lambda line: None))
    assert skipping == stepping
