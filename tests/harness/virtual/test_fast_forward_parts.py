"""How far fast-forward goes, and that nobody sees how it got there."""

from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from runtime.fast_forward.horizon import blocks_last
from tests.harness.virtual.both import skipping_and_stepping
from tests.harness.virtual.test_virtual_runs import small

PHASES = (
    'phases = { warmup = { completed = 2, max = "2s" }, baseline = "1s", trial = "4s", recovery = "1s", '
    'drain_max = "5s" }\n'
)
IMPATIENT = """
[[load]]
id = "long"
rate = "4/s"
prompt_tokens = [20, 60]
output_tokens = [100, 300]
timeout = "0.1s"
stream = 0.7
"""

sizes = st.sampled_from([1, 4, 16])


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3)), min_size=1, max_size=6), sizes, st.integers(0, 12))
def test_there_are_blocks_for_as_many_steps_as_a_walk_finds(requests, size, free):
    spare = [(-(-n // size) + more) * size - n for n, more in requests]
    held, walked, room = [-(-n // size) + more for n, more in requests], 0, free
    while walked < 30:
        short = [at for at, (n, _) in enumerate(requests) if n + walked >= held[at] * size]
        if len(short) > free:
            break
        free -= len(short)
        for at in short:
            held[at] += 1
        walked += 1
    assert blocks_last(spare, 30, size, room) == walked


def test_who_hangs_up_has_the_tokens_of_that_moment(tmp_path: Path) -> None:
    skipping, stepping = skipping_and_stepping(lambda: small(tmp_path, IMPATIENT, PHASES))
    assert skipping == stepping
