"""Fast-forward: the executor of virtual time that skips pure decode steps whose outcome is already determined.

    eager decode step | run of n steps: computed at once, landed when the last of them ends | eager step | ...
                      ^ the same rows, and nothing planned in virtual time before the last step ends

The step before a run is always eager: bound, checked against the contract, launched, and its KV verified. A run ends
before the next event of virtual time, before a deadline, and before the scheduler could plan other rows, so nothing can
read or change the state on the way. The engine lands the last step of a run like any other.

A share of all runs, chosen by the seed, is executed by the eager executor and compared with what was precomputed
(check.py). The history is the same with and without fast-forward, and whichever runs are checked.
"""

from itertools import groupby

import numpy as np

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.core.work import StepResult, Work
from runtime.device.costs import Priced
from runtime.device.hash_model import HashModel
from runtime.device.sim import SimDevice
from runtime.device.virtual_time import VirtualTime
from runtime.engine import EngineParts
from runtime.fast_forward.check import Check
from runtime.fast_forward.horizon import same_plans
from runtime.fast_forward.outputs import StepOutputs
from runtime.fast_forward.step_run import StepRun, precompute
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.batch import Batch
from runtime.scheduling.scheduler import Limits

STEPS_MAX = 64
"""The most steps of a run."""
STEPS_MIN = 2
"""The fewest steps of a run: one step saves nothing."""
CHECK_ONE_IN = 16
"""The check covers one run in this many."""
_NONE, _NO_HASHES = np.zeros(0, np.int64), np.zeros(0, np.uint64)


class FastForward:
    """Implements StepExecutor; the eager executor comes behind it in the chain."""

    def __init__(
        self,
        env: Env,
        pool: PagedPool,
        limits: Limits,
        parts: EngineParts,
        model: HashModel,
        device: SimDevice,
        costs: Priced,
        time: VirtualTime,
        late_ns: int,
        outputs: StepOutputs,
        check_one_in: int = CHECK_ONE_IN,
    ) -> None:
        self.skipped = 0
        """The number of steps skipped so far."""
        self.checked = 0
        """The number of runs checked so far."""
        self._env = env
        self._pool = pool
        self._limits = limits
        self._scheduler, self._progress, self._watchdog = parts.scheduler, parts.progress, parts.watchdog
        self._model = model
        self._device = device
        self._costs = costs
        self._time = time
        self._late_ns = late_ns
        self._outputs = outputs
        self._check_one_in = check_one_in
        self._chance = env.rng("fast_forward")
        self._eager: Batch | None = None
        """The batch that the eager executor has just completed."""
        self._flight: Ticket | None = None
        """The ticket of the run in flight."""
        self._check: Check | None = None

    def run(self, batch: Batch, step: int) -> Ticket | None:
        """See StepExecutor."""
        eager, self._eager = self._eager, None
        if self._check is not None:
            if self._check.follows(batch, step):
                return None
            self._check = None
        if eager is None or self._env.faults.armed or not self._device.idle or not _repeats(batch, eager):
            return None
        run = self._precompute(batch, step)
        if run is None:
            return None
        if self._chance.randrange(self._check_one_in) == 0:
            self._check = Check(self._env, run, self._model, self._pool.plane)
            self.checked += 1
            return None
        return self._skip(run)

    def completed(self, batch: Batch, ticket: Ticket) -> None:
        """See StepExecutor."""
        if ticket is self._flight:
            self._flight = None
            return
        if ticket.error is None:
            self._eager = batch
        if self._check is not None and self._check.completed(ticket):
            self._check = None

    def _precompute(self, batch: Batch, step: int) -> StepRun | None:
        """Precompute the run that begins with `batch`; return None when it would be too short."""
        rows = [row.request for row in batch.rows]
        if len(rows) != len(self._scheduler.running) or any(one.submit.stop_tokens for one in rows):
            return None
        # The clients have not got the token before this step yet.
        listening = self._outputs.steps_ahead([one.id for one in rows]) - 1
        most = min(STEPS_MAX, listening, min([one.limit - len(one.tokens) for one in rows]))
        if most < STEPS_MIN:
            return None
        most = same_plans(rows, most, self._scheduler, self._pool, self._limits)
        ends_ns = self._ends_ns(step, len(rows), sum([one.computed for one in rows]), most)
        return precompute(batch, step, ends_ns, self._model) if len(ends_ns) >= STEPS_MIN else None

    def _ends_ns(self, step: int, rows: int, computed: int, most: int) -> list[int]:
        """Return the ends (ns) of the steps, up to `most`, before the next event and before a launch is late."""
        now_ns, next_ns, due_ns = self._time.now_ns(), self._time.next_ns, self._watchdog.next_ns(())
        bound_ns = min([at for at in (next_ns, due_ns, now_ns + self._late_ns) if at is not None])
        ends = self._costs.decodes_ns(step, rows, computed + rows, now_ns, most, bound_ns, self._late_ns)
        while ends and ends[-1] >= bound_ns:
            ends.pop()
        return ends

    # -- a run that is skipped ----------------------------------------------------------------------------------------

    def _skip(self, run: StepRun) -> Ticket:
        ticket = self._flight = Ticket(self._device.skip(run.steps), _no_work(run), self._time.now_ns())
        self._time.at(run.ends_ns[-1], lambda: self._finish(run, ticket))
        return ticket

    def _finish(self, run: StepRun, ticket: Ticket) -> None:
        """Apply a run at its end: land all steps but the last, and complete the ticket with the last step."""
        last = run.steps - 1
        self._advance(run, last)
        work = run.work(self._pool.block_tokens)
        self._model.slots[work.slots] = run.states.ravel()
        self._pool.plane.stamp(work)
        told = [run.sampled(self._model, row, 0, last) for row in range(len(run.rows))]
        self._outputs.tell(work.request_ids, run.ends_ns[:last], told)
        self._progress.steps += last
        self._progress.generation_tokens += last * len(run.rows)
        self.skipped += run.steps
        ticket.launched_ns, ticket.done_ns = run.ends_ns[last - 1], run.ends_ns[last]
        ticket.result = StepResult(
            tuple([run.sampled(self._model, row, last, last + 1)[0] for row in range(len(run.rows))])
        )
        self._env.ledger.complete(ticket)

    def _advance(self, run: StepRun, steps: int) -> None:
        """Add the tokens of the first `steps` to the requests. Publish full blocks, then reserve the next blocks."""
        done = [0] * len(run.rows)
        drawn = run.drawn.tolist()

        def advance(row: int, step: int) -> None:
            run.rows[row].decoded(drawn[row][done[row] : step])
            done[row] = step

        for step, group in groupby(run.full_blocks(self._pool.block_tokens), key=lambda full: full[0]):
            rows = [row for _, row in group]
            for row in rows:
                advance(row, step)
                self._scheduler.publish(run.rows[row])
            for row in rows:
                self._scheduler.reserve(run.rows[row])
        for row in range(len(run.rows)):
            advance(row, steps)


def _repeats(batch: Batch, eager: Batch) -> bool:
    """Return True when `eager` was a decode step and `batch` is the next one of the same rows."""
    return len(batch.rows) == len(eager.rows) and all(
        now.request is then.request
        and now.tokens == then.tokens == 1
        and now.samples
        and not now.request.needs_full_check
        for now, then in zip(batch.rows, eager.rows, strict=True)
    )


def _no_work(run: StepRun) -> Work:
    """Return the empty work of a run's ticket."""
    key, step = run.batch.model_key, run.first_step
    return Work(step, key, (), _NONE, _NONE, _NONE, np.zeros(1, np.int64), _NONE, _NONE[:, None], (), _NO_HASHES)
