"""A check compares a run that the eager executor executes step by step with what fast-forward had precomputed.

It compares the rows of each step, the time at which the step ends, every sampled token (with log probabilities where
the request asks for them), and behind the last step the sum of every KV block and the state in every slot of the run. A
difference is a breach of an invariant that names step and request.
"""

import numpy as np

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.core.work import Words
from runtime.device.hash_model import HashModel
from runtime.fast_forward.step_run import StepRun
from runtime.memory.kv.tags import TagPlane
from runtime.scheduling.batch import Batch


class Check:
    """The check of one run, from its first step to its last or to the first difference."""

    def __init__(self, env: Env, run: StepRun, model: HashModel, plane: TagPlane) -> None:
        self._env = env
        self._run = run
        self._model = model
        self._plane = plane
        self._done = 0
        self._before = [plane.sums_of(one.blocks) for one in run.rows]
        """The sum of each block before the run."""

    def follows(self, batch: Batch, step: int) -> bool:
        """Return True when `batch` is the next step of the run; report a breach when it is not."""
        rows = tuple([row.request for row in batch.rows])
        number = self._run.first_step + self._done
        if step == number and rows == self._run.rows and all(row.tokens == 1 for row in batch.rows):
            return True
        names = ", ".join(one.id for one in rows)
        self._tell(self._run.rows[0].id, f"the rows of step {step} are {names}, and others were precomputed")
        return False

    def completed(self, ticket: Ticket) -> bool:
        """Compare a completed step of the run. Return True when the check is over."""
        at, run = self._done, self._run
        if ticket.result is None or ticket.done_ns != run.ends_ns[at]:
            self._tell(run.rows[0].id, f"it ends at {ticket.done_ns} ns ({ticket.error}), not at {run.ends_ns[at]} ns")
            return True
        for row, (request, sampled) in enumerate(zip(run.rows, ticket.result.sampled, strict=True)):
            (expected,) = run.sampled(self._model, row, at, at + 1)
            if sampled != expected:
                self._tell(request.id, f"it drew {sampled}, and {expected} was precomputed")
                return True
        self._done += 1
        if self._done < run.steps:
            return False
        self._done -= 1
        self._compare_kv()
        return True

    def _compare_kv(self) -> None:
        work, size = self._run.work(self._plane.block_tokens), self._plane.block_tokens
        tags = self._plane.tags_of(work).reshape(self._run.drawn.shape)
        states = self._model.slots[work.slots].reshape(self._run.drawn.shape)
        for row, request in enumerate(self._run.rows):
            positions = int(self._run.starts[row]) + np.arange(self._run.steps)
            sums: Words = np.zeros(len(request.blocks), np.uint64)
            sums[: len(self._before[row])] = self._before[row]
            np.add.at(sums, positions // size, tags[row] * (positions % size + 1).astype(np.uint64))
            if np.count_nonzero(sums != self._plane.sums_of(request.blocks)):
                self._tell(request.id, "the sums of its KV blocks are not those precomputed")
            elif np.count_nonzero(states[row] != self._run.states[row]):
                self._tell(request.id, "the KV in its slots is not what was precomputed")

    def _tell(self, request: str, what: str) -> None:
        step = self._run.first_step + self._done
        self._env.tell("invariant", "fast_forward", f"step {step}, {request}: {what}")
