"""The engine's thread dies of an assertion in the scheduler.

Models Z115 (vllm#45346: what the step loop does not expect is an exception there, and ends the engine for everybody).
"""

from tests.planted.raising import raising

MODULE = "runtime.scheduling.scheduler"


def plant(scheduler):
    scheduler.Scheduler.plan = raising(scheduler.Scheduler.plan, AssertionError("planted in the plan"), 150)
