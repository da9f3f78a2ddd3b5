"""Many decode steps at once, in virtual time: while nothing else can happen, steps differ only in their tokens.

    land -> [leap: k steps, each with its own end, tokens and news] -> plan the next launch as ever

A step may be leapt over only when the scheduler could not plan anything else (all who run decode, nobody waits for a
place that is free), its blocks are free, no fault is armed, and it is over before anything planned, any deadline and
any late bound. A leap goes no further than the step in which a request ends.

So a run with leaps has the same history as one without; a test holds the two together. What it saves is the laying out,
checking and landing of k launches: they become one of k tokens a row.

It is the engine's friend and moves its counters; live engines have none.
"""

from collections.abc import Callable

from runtime.core.edge import End, Output
from runtime.core.env import Env
from runtime.core.work import Sampled, StepResult
from runtime.device.costs import Priced
from runtime.device.keyed import KeyedModel
from runtime.device.virtual_time import VirtualTime
from runtime.engine import Engine
from runtime.memory.paged import PagedPool
from runtime.scheduling.batch import Batch, Row, bind
from runtime.scheduling.request import Phase, Request
from runtime.scheduling.scheduler import Limits


class Leap:
    """`horizon_ns` gives the first moment that must not be reached; `stirred` whether the news of a step called for a
    turn of the engine at once."""

    def __init__(
        self,
        engine: Engine,
        env: Env,
        pool: PagedPool,
        limits: Limits,
        model: KeyedModel,
        costs: Priced,
        time: VirtualTime,
        late_ns: int,
        horizon_ns: Callable[[], int],
        stirred: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._env = env
        self._pool = pool
        self._limits = limits
        self._model = model
        self._costs = costs
        self._time = time
        self._late_ns = late_ns
        self._horizon_ns = horizon_ns
        self._stirred = stirred
        self.steps = 0
        """Leapt over so far."""

    def __call__(self) -> None:
        """Called by the engine when it has landed all launches and planned none yet."""
        engine = self._engine
        while most := self._most(engine._scheduler.running):
            outputs, engine._outputs = engine._outputs, []
            engine._sink.step(outputs)
            running = list(engine._scheduler.running)
            starts = [request.computed for request in running]
            steps, last = (0, []) if self._stirred() else self._walk(running, most)
            if steps:
                self._settle(running, starts, steps)
            if not last:
                return
            for request, sampled in last:
                self._land(request, sampled)

    def _most(self, running: list[Request]) -> int:
        """How many steps can be leapt over at most, before time and blocks are looked at."""
        engine, limits = self._engine, self._limits
        if not running or self._env.faults.armed or engine._flight is not None or engine._due or engine.fatal:
            return 0
        if engine._scheduler.waiting and len(running) < limits.seqs_max:
            return 0
        if len(running) > limits.token_budget or any(one.submit.stop_tokens for one in running):
            return 0
        # A prompt with one token left also has 1 remaining, but its first answer is an event of its own.
        if any(one.remaining != 1 or one.first_ns is None for one in running):
            return 0
        if any(one.submit.model_key for one in running):
            return 0
        return min(one.limit - len(one.tokens) for one in running)

    def _walk(self, running: list[Request], most: int) -> tuple[int, list[tuple[Request, Sampled]]]:
        """Up to `most` steps; returns how many. KV and tags lag behind until `_settle`. After `most` steps somebody
        ends: that step's tokens are returned, and not told yet."""
        engine, time, model, size = self._engine, self._time, self._model, self._pool.block_tokens
        states = [model.state(one.blocks, one.computed) for one in running]
        wants = [one.submit.sampling.logprobs is not None for one in running]
        context, rows, steps, room = sum(one.computed + 1 for one in running), len(running), 0, 0
        while steps < most:
            cost_ns = self._costs.decode_ns(engine._steps + 1, rows, context)
            done_ns = time.now_ns() + cost_ns
            if cost_ns >= self._late_ns or done_ns >= self._horizon_ns():
                break
            if room == 0 and (room := self._take(running)) == 0:
                break
            time.jump(done_ns)
            drawn = []
            for at, request in enumerate(running):
                place = request.computed
                states[at], sampled = model.follow(states[at], request.tokens[place], place, wants[at])
                request.computed = place + 1
                request.tokens.append(sampled.token)
                drawn.append((request, sampled))
            engine._steps += 1
            steps, room, context = steps + 1, room - 1, context + rows
            if steps == most:
                return steps, drawn
            for request, _ in drawn:
                if request.computed % size == 0:
                    engine._scheduler.publish(request)
            engine._sink.step([Output(request.id, (sampled,)) for request, sampled in drawn])
            if self._stirred():
                break
        return steps, []

    def _land(self, request: Request, sampled: Sampled) -> None:
        """As the engine lands a row: others may share what is full, and who has all tokens ends."""
        engine = self._engine
        if request.phase is Phase.ENDED:  # its KV was found damaged
            return
        engine._scheduler.publish(request)
        finish = request.finish_by()
        if finish is None:
            engine._outputs.append(Output(request.id, (sampled,)))
        else:
            engine._end(request, End("ok", 200, finish=finish), (sampled,))

    def _take(self, running: list[Request]) -> int:
        """Blocks for the next step, in the order in which the scheduler would give them. Returns for how many steps
        nobody needs another one; 0: there are too few free ones, and nothing was taken."""
        pool = self._pool
        short = [one for one in running if one.computed >= len(one.blocks) * pool.block_tokens]
        if short and len(short) > pool.count().free:
            return 0
        for one in short:
            one.give(*pool.take(one.id, 1, group=one.submit.group, phase=one.stage))
        return min(len(one.blocks) * pool.block_tokens - one.computed for one in running)

    def _settle(self, running: list[Request], starts: list[int], steps: int) -> None:
        """Write KV and tags of the whole leap as one launch of so many tokens a row, checked as every launch is."""
        engine, pool = self._engine, self._pool
        for request, start in zip(running, starts, strict=True):
            request.computed = start
        batch = Batch("", tuple(Row(request, steps) for request in running))
        bound = bind(batch, engine._steps, pool.block_tokens)
        breaches = pool.plane.verify(bound.work, bound.reads)
        self._model.run(bound.work)
        pool.plane.stamp(bound.work)
        for request, start in zip(running, starts, strict=True):
            request.line.extend(request.tokens[start : start + steps])
            request.computed = start + steps
        engine._generation_tokens += steps * len(running)
        engine._progress_ns = self._time.now_ns()
        self.steps += steps
        if breaches:
            engine._refuse_corrupt(StepResult((), breaches))
