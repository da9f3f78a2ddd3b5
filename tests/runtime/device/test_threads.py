"""The process has one OpenMP pool: counted from the kernel's list of threads, in a process of its own."""

import os
import subprocess
import sys

import pytest

from runtime.core.errors import LaunchError
from tests.contract.device.worlds import CpuWorld, work

_HELPERS = """
import os, sys, threading
import torch
from runtime import build
from runtime.core.messages import Submit
from runtime.core.work import Sampling
from runtime.device import threads

def helpers():  # threads of the kernel that are not Python's
    return len(os.listdir("/proc/self/task")) - threading.active_count()

class Sink:
    def fire(self, fire): ...
    def fault(self, state): ...
    def step(self, outputs):
        if any(output.ended for output in outputs):
            over.set()

if sys.argv[1] == "planted":
    build.compute_alone = lambda: None
    torch.set_num_threads(3)  # as where nobody says anything: the cores that there are
before, over = helpers(), threading.Event()
runtime = build.build_served({"threads": 3, "kv_blocks": 2048, "token_budget": 512}, Sink())
runtime.start(Sink())
now_ns = runtime.env.clock.now_ns()
runtime.mailbox.offer(Submit("a", tuple(range(1, 400)), 8, Sampling(), now_ns, now_ns + 60 * 10**9))
assert over.wait(60)
print(helpers() - before)
runtime.close()
"""


def _helpers(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _HELPERS, how],
        env=os.environ | {"OMP_NUM_THREADS": "3"},
        capture_output=True,
        timeout=120,
        check=True,
        text=True,
    )
    return int(done.stdout)


def test_three_threads_of_the_device_are_its_worker_and_two_helpers_and_no_other_pool_is_there() -> None:
    assert _helpers("as it is") == 2


def test_without_it_loading_weights_starts_a_second_pool() -> None:
    assert _helpers("planted") == 4


def test_what_is_called_runs_on_the_worker_in_order_with_launches_and_its_error_comes_back() -> None:
    world = CpuWorld()
    ticket = world.device.launch(work(1), (), ())
    seen: list[int] = []
    world.device.call(lambda: seen.append(len(world.journal.lines)))
    assert ticket.done
    assert seen == [3]
    with pytest.raises(ZeroDivisionError):
        world.device.call(lambda: seen.append(1 // 0))
    world.device.close()
    with pytest.raises(LaunchError, match="closed"):
        world.device.call(lambda: seen.append(0))
