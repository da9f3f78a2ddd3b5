"""What is the CPU device's own: its thread, the process it can end, and malloc."""

import signal
import subprocess
import sys

from runtime.device.malloc import keep_freed_memory, minor_faults
from tests.contract.test_device import CpuWorld, work

_KILLED = """
from tests.contract.test_device import CpuWorld, arm, launch
world = CpuWorld()
arm(world, "device.launch: kill", "in_flight", times=1)
world.until(lambda ticket=launch(world, 1): ticket.done)
"""


def test_kill_ends_the_process_as_kill_9_does() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED], capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_an_idle_device_keeps_no_work_alive() -> None:
    import gc
    import weakref

    world = CpuWorld()
    ticket = world.device.launch(work(1), (), ())
    world.until(lambda: ticket.done)
    world.env.ledger.settle()
    second = world.device.launch(work(2), (), ())  # once this runs, the frame of the first is gone
    world.until(lambda: second.done)
    tokens = weakref.ref(ticket.work.token_ids)
    del ticket
    gc.collect()
    world.device.close()
    assert tokens() is None


def test_large_buffers_are_used_again_once_malloc_is_settled() -> None:
    program = """
import torch
from runtime.device.malloc import keep_freed_memory, minor_faults
if {settle}: assert keep_freed_memory()
for _ in range(3): torch.empty(1 << 20).zero_()
before = minor_faults()
for _ in range(20): torch.empty(1 << 20).zero_()
print(minor_faults() - before)
"""
    counts = {}
    for settle in (False, True):
        run = [sys.executable, "-c", program.format(settle=settle)]
        counts[settle] = int(subprocess.run(run, capture_output=True, timeout=60, check=True, text=True).stdout)
    assert counts[True] * 20 < counts[False]


def test_settling_malloc_twice_is_harmless() -> None:
    assert keep_freed_memory()
    assert keep_freed_memory()
    assert minor_faults() > 0
