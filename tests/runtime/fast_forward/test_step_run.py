"""A precomputed run leaves in tokens, KV, tags and claims what as many launches leave."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Submit
from runtime.core.ports import Ticket
from runtime.core.work import Sampling, StepResult
from runtime.device.hash_model import SAID, HashModel
from runtime.device.virtual_time import VirtualTime
from runtime.fast_forward.check import Check
from runtime.fast_forward.step_run import StepRun, precompute
from runtime.memory.kv.tags import SequenceTable, TagPlane
from runtime.scheduling.batch import Batch, Row, bind
from runtime.scheduling.request import Request

BLOCKS, SIZE, SEED = 64, 4, 3
prompts = st.lists(st.lists(st.integers(0, SAID - 1), min_size=1, max_size=20), min_size=1, max_size=3)


class Machine:
    """A device's side with some requests whose prompts are computed, and blocks for all that may come."""

    def __init__(self, prompts: list[list[int]], logprobs: int | None = None) -> None:
        self.model, self.plane = HashModel(BLOCKS, SIZE, SEED), TagPlane(BLOCKS, SIZE)
        self.rows, free, sequences = [], list(range(BLOCKS)), SequenceTable(SIZE)
        for name, prompt in enumerate(prompts):
            submit = Submit(str(name), tuple(prompt), 40, Sampling(logprobs=logprobs), 0, 10**12)
            request = Request(submit, 0, sequences)
            taken = [free.pop() for _ in range(16)]
            request.give(taken, self.plane.hand_out(taken))
            self.rows.append(request)
        self.launch(Batch("", tuple([Row(one, len(one.tokens)) for one in self.rows])))

    @property
    def decode(self) -> Batch:
        return Batch("", tuple([Row(one, 1) for one in self.rows]))

    def launch(self, batch: Batch) -> StepResult:
        work = bind(batch, 1).work
        result = StepResult(self.model.run(work))
        self.plane.stamp(work)
        for row, sampled in zip(batch.rows, result.sampled, strict=True):
            row.request.advance(row.tokens, sampled, 1)
        return result

    def foresee(self, steps: int) -> StepRun:
        run = precompute(self.decode, 1, range(1, steps + 1), self.model)
        assert run is not None
        return run

    @property
    def kv(self) -> list[list[int]]:
        return [self.model.slots.tolist(), self.plane.slots.tolist(), self.plane.sums_of(range(BLOCKS)).tolist()]


@given(prompts, st.integers(2, 30), st.sampled_from([None, 1]))
def test_a_run_leaves_what_launches_leave(prompts, steps, logprobs):
    stepped, skipped = Machine(prompts, logprobs), Machine(prompts, logprobs)
    run = skipped.foresee(steps)
    drawn = [stepped.launch(stepped.decode).sampled for _ in range(steps)]
    for row, request in enumerate(skipped.rows):
        assert run.sampled(skipped.model, row, 0, steps) == [step[row] for step in drawn]
        request.decoded(run.drawn[row].tolist())
    work = run.work(SIZE)
    skipped.model.slots[work.slots] = run.states.ravel()
    skipped.plane.stamp(work)
    assert skipped.kv == stepped.kv
    for one, other in zip(skipped.rows, stepped.rows, strict=True):
        assert (one.tokens, one.computed) == (other.tokens, other.computed)
        assert (one.tags.prefix_hash, one.tags.sums) == (other.tags.prefix_hash, other.tags.sums)


@given(prompts, st.integers(2, 20))
def test_full_blocks_are_told_behind_the_step_that_fills_them(prompts, steps):
    run = Machine(prompts).foresee(steps)
    walked = [
        (step, row)
        for step in range(1, steps)
        for row, request in enumerate(run.rows)
        if (request.computed + step) % SIZE == 0
    ]
    assert run.full_blocks(SIZE) == walked


@given(prompts)
def test_nothing_is_precomputed_where_kv_does_not_lead_to_the_last_token(prompts):
    machine = Machine(prompts)
    machine.rows[-1].tokens[-1] = SAID + (machine.rows[-1].tokens[-1] - SAID + 1) % 95
    assert precompute(machine.decode, 1, range(1, 5), machine.model) is None


def checked(machine: Machine, steps: int, damage: str = "", at: int = 1) -> list[str]:
    """The breaches that a check tells of while `steps` are played, the `at`th of them with `damage`."""
    env = Env(VirtualTime(), 0, DisabledFaults(), Ledger())
    check = Check(env, machine.foresee(steps), machine.model, machine.plane)
    for step in range(1, steps + 1):
        batch = machine.decode
        if damage == "rows" and step == at:
            batch = Batch("", batch.rows[1:] or (Row(machine.rows[0], 2),))
        if not check.follows(batch, step):
            break
        result, ticket = machine.launch(batch), Ticket(step, bind(machine.decode, step).work, 0, done_ns=step)
        ticket.result = result
        if step == at:
            last = machine.rows[-1]
            slot = last.blocks[(last.computed - 1) // SIZE] * SIZE + (last.computed - 1) % SIZE
            if damage == "token" and result.sampled[-1] is not None:
                ticket.result = StepResult((*result.sampled[:-1], machine.model.plain[0]))
            elif damage == "time":
                ticket.done_ns = step + 1
            elif damage == "error":
                ticket.result, ticket.error = None, RuntimeError("x")
            elif damage == "sum":
                machine.plane.stamp(bind(machine.decode, step).work)  # behind the newest token
            elif damage == "state":
                machine.model.slots[slot] ^= np.uint64(1)
        if check.completed(ticket):
            break
    return [f"{event.kind} {event.value}: {event.detail}" for event in env.events.take()]


@given(prompts, st.integers(2, 12))
def test_a_check_of_healthy_steps_tells_nothing(prompts, steps):
    assert checked(Machine(prompts), steps) == []


@pytest.mark.parametrize("damage", ["rows", "token", "time", "error", "sum", "state"])
def test_a_check_tells_whatever_parts_and_names_step_and_request(damage):
    machine = Machine([[1, 2, 3], [4, 5]])
    told = checked(machine, 6, damage, at=6 if damage in ("sum", "state") else 3)[-1]
    assert told.startswith(f"invariant fast_forward: step {6 if damage in ('sum', 'state') else 3}, ")
    assert machine.rows[-1].id in told or damage in ("rows", "time", "error")
