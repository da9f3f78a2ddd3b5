"""The engine's thread dies of an assertion in the scheduler."""

from tests.planted.raising import raising

MODULE = "runtime.scheduling.scheduler"


def plant(scheduler):
    scheduler.Scheduler.plan = raising(scheduler.Scheduler.plan, AssertionError("planted in the plan"), 150)
