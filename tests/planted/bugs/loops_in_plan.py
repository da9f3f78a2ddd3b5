"""The engine's step loops: the server answers /health and makes no token.

Models Z113 (vllm#36451: health answers 200 while the engine's loop is frozen).
"""

import types

MODULE = "runtime.scheduling.scheduler"


def plant(scheduler, after=400):
    original, plans = scheduler.Scheduler.plan, [0]

    def plan(self):
        plans[0] += 1
        while plans[0] > after:
            pass
        return original(self)

    code = plan.__code__.replace(co_qualname="Scheduler.plan")
    scheduler.Scheduler.plan = types.FunctionType(code, vars(scheduler), "plan", None, plan.__closure__)
