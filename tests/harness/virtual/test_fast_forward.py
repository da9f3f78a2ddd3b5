"""Whatever the load and however short the pool: a run with fast-forward and one without have the same history."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from harness.options import Outcome, RunOptions
from harness.run import run
from harness.virtual.world import World
from tests.harness.virtual.both import NEVER, WORLD, skipping_and_stepping
from tests.steps import examples

pytestmark = pytest.mark.slow

SCENARIO = """
schema = 1
name = "any"
means = "x"
drive = "virtual"
seed = {seed}
target = {{ knobs = {{ kv_blocks = {blocks}, block_tokens = {size}, token_budget = {budget}, seqs_max = {seqs}, waiting_max = {waiting}, prefix_cache = {prefix}, request_timeout_s = {deadline}, expected_output = {share}, preemption = "{preemption}" }} }}
phases = {{ warmup = {{ completed = 5, max = "5s" }}, baseline = "1s", trial = "6s", quiesce = {{ every = "3s", max = "3s" }}, recovery = "1s", drain_max = "4s" }}
canary = {{ every = "2s" }}
[[load]]
id = "open"
rate = "{rate}/s"
prompt_tokens = [2, {prompt}]
output_tokens = [1, {output}]
shared_prefix = 0.5
stream = 0.7
timeout = "{patience}s"
cancel = [{{ share = 0.1, at = "queued" }}, {{ share = 0.2, at = "token 4" }}]
[[load]]
id = "users"
arrivals = "closed"
users = {users}
prompt_tokens = [2, {prompt}]
output_tokens = [1, {output}]
[[fault]]
id = "oom"
do = "kv.take: oom"
when = {{ at = "1s", times = 5, interval = 3, for = "1s" }}
expect = {{ outcomes = ["ok", "refused", "timeout"], victims = "all", recover = "1s" }}
"""  # noqa: E501 - TOML's inline tables stay on one line

loads = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 1000),
        "blocks": st.integers(16, 80),
        "size": st.sampled_from([4, 16]),
        "budget": st.sampled_from([8, 64, 512]),
        "seqs": st.integers(1, 8),
        "waiting": st.integers(1, 12),
        "prefix": st.sampled_from(["true", "false"]),
        "deadline": st.sampled_from([0.2, 1, 60]),
        "rate": st.integers(1, 12),
        "prompt": st.integers(3, 120),
        "output": st.integers(2, 60),
        "patience": st.sampled_from([0.1, 60]),
        "users": st.integers(1, 2),
        "share": st.sampled_from([1.0, 0.4, 0.1]),
        "preemption": st.sampled_from(["auto", "swap", "recompute"]),
    }
)


def trial(folder: Path, text: str) -> Outcome:
    file = folder / "any.toml"
    file.write_text(text)
    return run(RunOptions(str(file), folder / "runs"), say=lambda line: None)


# A failing one is quick to read as it is: the tables that differ are named. Shrinking whole runs takes minutes.
@settings(
    max_examples=examples(3),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@example(
    drawn={
        "seed": 137,
        "blocks": 24,
        "size": 16,
        "budget": 8,
        "seqs": 8,
        "waiting": 8,
        "prefix": "false",
        "deadline": 60,
        "rate": 7,
        "prompt": 103,
        "output": 15,
        "patience": 0.1,
        "users": 2,
        "share": 1.0,
        "preemption": "auto",
    }
)  # chunks of 8 leave prompts with one token to go, which looks like decode
@given(drawn=loads)
def test_a_run_with_fast_forward_has_the_history_of_one_without(drawn):
    text = SCENARIO.format(**drawn)
    with tempfile.TemporaryDirectory() as folder:
        skipping, stepping = skipping_and_stepping(lambda: trial(Path(folder), text), must_skip=False)
        assert skipping == stepping


BUSY = """
schema = 1
name = "busy"
means = "x"
drive = "virtual"
seed = {seed}
target = {{ knobs = {{ kv_blocks = {blocks}, block_tokens = {size}, token_budget = {budget}, seqs_max = {seqs}, waiting_max = {waiting}, prefix_cache = {prefix}, expected_output = 0, preemption = "{preemption}", swap_blocks = {room}, request_timeout_s = 60 }} }}
phases = {{ warmup = {{ completed = 1, max = "3s" }}, baseline = "1s", trial = "{trial}s", recovery = "1s", drain_max = "4s" }}
canary = {{ every = "3s" }}
[[load]]
id = "u"
arrivals = "closed"
users = {users}
rate = "{rate}/s"
prompt_tokens = [{least}, {prompt}]
output_tokens = [{some}, {output}]
shared_prefix = {shared}
cancel = [{{ share = {leaving}, at = "prefill" }}, {{ share = {leaving}, at = "token 1" }}]
"""  # noqa: E501 - TOML's inline tables stay on one line

waits = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 1000),
        "blocks": st.integers(26, 80),
        "size": st.sampled_from([2, 4]),
        "budget": st.sampled_from([3, 5, 9, 16, 64]),
        "seqs": st.integers(2, 5),
        "waiting": st.sampled_from([2, 20]),
        "prefix": st.sampled_from(["true", "true", "false"]),
        "preemption": st.sampled_from(["auto", "swap", "recompute", "fail"]),
        "room": st.sampled_from([0, 40, 256]),
        "users": st.integers(3, 7),
        "rate": st.sampled_from([5, 40]),
        "least": st.sampled_from([2, 16]),
        "prompt": st.integers(20, 40),
        "some": st.sampled_from([1, 10]),
        "output": st.integers(10, 60),
        "shared": st.sampled_from([0, 0.5, 1.0]),
        "leaving": st.sampled_from([0, 0.1]),
        "trial": st.just(4),
    }
)
ROOMY = {"waiting": 20, "prefix": "true", "room": 256, "shared": 1.0, "leaving": 0, "some": 10, "size": 4}


# Who computes again, or comes back from the host, makes known what the head of the queue may share; a chunk of one
# token is no decode; and rows of later steps come in order of rank.
@settings(
    max_examples=examples(3),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@example(
    drawn=ROOMY
    | {"seed": 0, "blocks": 30, "budget": 64, "seqs": 3, "preemption": "recompute", "users": 5, "rate": 40}
    | {"least": 16, "prompt": 40, "output": 60, "trial": 15}
)
@example(
    drawn=ROOMY
    | {"seed": 0, "blocks": 34, "budget": 16, "seqs": 4, "preemption": "swap", "users": 7, "rate": 40}
    | {"least": 16, "prompt": 40, "output": 60, "trial": 4}
)
@example(
    drawn=ROOMY
    | {"seed": 1, "blocks": 22, "budget": 5, "seqs": 4, "preemption": "recompute", "users": 4, "rate": 8}
    | {"least": 2, "prompt": 8, "output": 60, "trial": 20, "prefix": "false", "shared": 0}
)
@given(drawn=waits)
def test_so_it_has_where_somebody_always_waits(drawn):
    text = BUSY.format(**drawn)
    with tempfile.TemporaryDirectory() as folder:
        skipping, stepping = skipping_and_stepping(lambda: trial(Path(folder), text), must_skip=False)
        assert skipping == stepping


@pytest.mark.parametrize(
    ("words", "share"),
    [
        ({}, 0.85),
        ({"blocks": 24, "seqs": 8, "rate": 12, "share": 0.4}, 0.5),  # somebody waits nearly always
    ],
    ids=["calm", "short pool"],
)
def test_most_steps_are_skipped(words, share, tmp_path, monkeypatch):
    calm = {"seed": 1, "blocks": 200, "size": 16, "budget": 64, "seqs": 8, "waiting": 12, "prefix": "true"}
    calm |= {"deadline": 60, "rate": 3, "prompt": 60, "output": 60, "patience": 60, "users": 1, "share": 1.0}
    worlds = []

    def kept(*args, **options):
        worlds.append(World(*args, check_one_in=NEVER, **options))
        return worlds[-1]

    monkeypatch.setattr(WORLD, kept)
    trial(tmp_path, SCENARIO.format(**calm | {"preemption": "recompute"} | words))
    (world,) = worlds
    assert world.fast_forward.skipped > share * world.engine.status.steps
