"""The eager executor binds a batch and launches it on the device."""

from runtime.core.env import Env
from runtime.core.ports import Device, Ticket
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.batch import Batch, bind


class Eager:
    """Implements StepExecutor; takes every batch. While a fault is armed a launch reads every slot of its KV."""

    def __init__(self, env: Env, device: Device, pool: PagedPool) -> None:
        self._env = env
        self._device = device
        self._pool = pool

    def run(self, batch: Batch, step: int) -> Ticket:
        """See StepExecutor."""
        bound = bind(batch, step, deep=self._env.faults.armed)
        self._pool.check_writes(bound.writes)
        return self._device.launch(bound.work, bound.reads, bound.writes)

    def completed(self, batch: Batch, ticket: Ticket) -> None:
        """See StepExecutor. This executor keeps nothing of a launch."""
