"""What is the CPU device's own: its thread, the process it can end, and malloc."""

import gc
import signal
import subprocess
import sys
import time
import weakref
from typing import Any

from runtime.device.malloc import keep_freed_memory, minor_faults
from tests.contract.device.worlds import CpuWorld, work

_KILLED = """
from tests.contract.device.worlds import CpuWorld, arm, launch
world = CpuWorld()
arm(world, "device.launch: kill", "in_flight", times=1)
world.until(lambda ticket=launch(world, 1): ticket.done)
"""


def test_kill_ends_the_process_as_kill_9_does() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED], capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_an_idle_device_keeps_no_work_alive() -> None:
    world = CpuWorld()
    tokens = _run_one(world)
    give_up_s = time.monotonic() + 10
    while tokens() is not None and time.monotonic() < give_up_s:  # the worker is on its way back to its queue
        gc.collect()
    assert tokens() is None
    world.device.close()


def _run_one(world: CpuWorld) -> weakref.ref[Any]:
    ticket = world.device.launch(work(1), (), ())
    world.until(lambda: ticket.done)
    assert world.env.ledger.settle() == [ticket]
    return weakref.ref(ticket.work.token_ids)


_FAULTING = """
import sys, threading, torch
from runtime.device.malloc import keep_freed_memory, minor_faults
def steps(n):
    for _ in range(n):
        buffers = [torch.empty(mib << 18).zero_() for mib in (1, 2, 4, 1, 2, 4, 1, 2, 4, 8)]
        del buffers
def serve():
    torch.set_num_threads(1)
    steps(20)
    rounds = []
    for _ in range(5):  # the least of them: the kernel may take pages back from a busy machine and fault them in again
        before = minor_faults()
        steps(20)
        rounds.append(minor_faults() - before)
    print(min(rounds))
if sys.argv[1] == "settled":
    assert keep_freed_memory()
worker = threading.Thread(target=serve)  # as in a device: on the main thread glibc adapts by itself
worker.start()
worker.join()
"""


def test_a_worker_thread_uses_its_buffers_again_once_malloc_is_settled() -> None:
    counts = {}
    for how in ("as it is", "settled"):
        run = [sys.executable, "-c", _FAULTING, how]
        counts[how] = int(subprocess.run(run, capture_output=True, timeout=60, check=True, text=True).stdout)
    assert counts["settled"] * 20 < counts["as it is"], counts


def test_settling_malloc_twice_is_harmless() -> None:
    assert keep_freed_memory()
    assert keep_freed_memory()
    assert minor_faults() > 0
