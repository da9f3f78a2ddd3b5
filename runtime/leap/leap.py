"""Many decode steps in one flight, in virtual time: while nothing else can happen, steps differ only in their tokens.

    land -> [leap: step 1, step 2, ... step k] -> land -> plan the next launch as ever
                     ^ a request comes: the step in flight is the last one
                     ^ somebody looks (a sample, a hang-up): the steps before now are landed, the leap goes on
                     ^ a cancel, a deadline, a fault: the step in flight is handed over to the device as a real launch

Steps are leapt over only while the scheduler could plan nothing else: all who run decode, nobody who waits can come in,
there are blocks, no fault is armed, no step is late. A leap goes no further than the first step in which a request ends
or its client leaves. Each step has its own end, and what would be told of it is told with that stamp.

So a run with leaps has the same history as one without; a test holds the two together. What it saves is the laying out,
checking and landing of k launches: their tokens are one array, and the tag plane compares all blocks once.

It is the engine's friend and moves its counters and its flight; live engines have none.
"""

from collections.abc import Callable, Sequence

import numpy as np

from runtime.core.edge import Submit
from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.core.work import Work
from runtime.device.costs import Priced
from runtime.device.keyed import KeyedModel
from runtime.device.sim import SimDevice, _Launch
from runtime.device.virtual_time import VirtualTime
from runtime.engine import Engine, Flight
from runtime.leap.leapt import Leapt
from runtime.leap.news import News
from runtime.leap.reach import blocks_last, decode_only, nobody_enters
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.tag_line import reckon
from runtime.scheduling.batch import Batch, Row, bind
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Limits

STRETCH = 64
"""Steps that are worked out ahead at most, since what comes may end the leap sooner."""


class Leap:
    """Called by the engine when it has landed all launches and planned none yet; `turn` and `catch_up` by the world."""

    def __init__(
        self,
        engine: Engine,
        env: Env,
        pool: PagedPool,
        limits: Limits,
        model: KeyedModel,
        device: SimDevice,
        costs: Priced,
        time: VirtualTime,
        late_ns: int,
        news: News,
        wake: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._env = env
        self._pool = pool
        self._limits = limits
        self._model = model
        self._device = device
        self._costs = costs
        self._time = time
        self._late_ns = late_ns
        self._news = news
        self._wake = wake
        self._going: Leapt | None = None
        self._no_work = _no_work()
        self.steps = 0
        """Leapt over so far."""

    def __call__(self) -> None:
        """Begin a leap, if there is one."""
        running = self._engine._scheduler.running
        if not decode_only(self._engine, self._limits, running) or self._env.faults.armed:
            return
        untold = [output.request_id for output in self._engine._outputs]
        rooms = self._news.rooms([one.id for one in running], untold)
        most = min(min(rooms), min([one.limit - len(one.tokens) for one in running]))
        most = nobody_enters(self._engine._scheduler, self._pool, self._limits, blocks_last(self._pool, running, most))
        if most > 0:
            self._begin(list(running), rooms, most)

    def turn(self) -> bool:
        """Before a turn of the engine. False: it is not needed."""
        going = self._going
        if going is None:
            return True
        self.catch_up()
        mail = self._engine.mailbox._mail
        if going.due:
            if mail or self._env.faults.armed:
                self.hand_over()
            elif not self._goes_on(going):
                self._land(going)
            else:
                return False
            return True
        if self._engine.wait_s() == 0.0 or any(not isinstance(one, Submit) for one in mail):
            self.hand_over()
        elif mail:
            self._cut(going)
        else:
            return False
        return True

    def catch_up(self) -> None:
        """Somebody looks at the engine or at a client: the steps that are over by now have landed."""
        going, now_ns = self._going, self._time.now_ns()
        if going is not None and (done := going.over_by(now_ns)) > going.done:
            self._advance(going, done)

    def look(self) -> None:
        """The same, and the engine's status says so too."""
        self.catch_up()
        if self._going is not None:
            self._engine._publish()

    def hand_over(self) -> None:
        """From now on it is not so simple: the step in flight becomes a real launch."""
        going = self._going
        if going is None:
            return
        self.catch_up()
        self._going = None
        self._settle(going, going.done)
        self.steps += going.done
        engine, ticket, end_ns = self._engine, going.ticket, going.ends_ns[going.done]
        batch = Batch("", tuple([Row(request, 1) for request in going.rows]))
        bound = bind(batch, engine._steps, self._pool.block_tokens)
        ticket.work = bound.work
        engine._flight = Flight(batch, ticket, 0)
        device, launch = self._device, _Launch(ticket, bound.work, bound.reads, None)
        device._running = launch
        if end_ns == self._time.now_ns():
            device._compute(launch)
        else:
            self._time.at(end_ns, lambda: device._compute(launch))

    # -- one leap -----------------------------------------------------------------------------------------------------

    def _begin(self, rows: list[Request], rooms: list[int], most: int) -> None:
        engine, pool, now_ns = self._engine, self._pool, self._time.now_ns()
        going = Leapt(rows, rooms, most, Ticket(0, self._no_work, now_ns), pool.block_tokens)
        if self._damaged(going):
            return  # a real launch finds the same, and tells
        if not self._price(going):
            return
        self._going = going
        size = pool.block_tokens
        pool.check_writes([one.blocks[-1] for one in rows if one.computed < len(one.blocks) * size])
        last = [one.blocks[(one.computed - 1) // size] * size + (one.computed - 1) % size for one in rows]
        going.begin(self._model, self._model.states(np.asarray(last)))
        engine._flight = Flight(Batch("", ()), going.ticket, 0)
        self._launched(1)
        self._take([one for one in rows if one.computed >= len(one.blocks) * size])

    def _damaged(self, going: Leapt) -> bool:
        """Every block that the leap will read is compared before it."""
        lines = [one.line for one in going.rows]
        reckon(lines)
        held = [one.line.held(one.blocks, one.generations) for one in going.rows]
        tables, generations = [each[0] for each in held], [each[1] for each in held]
        sums, tokens = [line.claimed() for line in lines], [line.tokens for line in lines]
        deep = [one.doubted for one in going.rows]
        return bool(self._pool.plane.breaches(going.names, tables, generations, sums, tokens, deep))

    def _price(self, going: Leapt) -> bool:
        """Ends of further steps, up to the first that is over after the next thing planned. False: there is none."""
        ends = going.ends_ns
        was, number = len(ends), len(going.rows)
        step = self._engine._steps + was - going.done + (not ends)
        ahead, at_ns = min(STRETCH, going.most - was), ends[-1] if ends else going.ticket.launched_ns
        ends += self._costs.decodes_ns(
            step, number, going.context + was * number, at_ns, ahead, self._time.next_ns, self._late_ns
        )
        if len(ends) == was:
            return False  # a launch that is late is an event of its own
        end_ns = ends[-1]
        going.due = False
        self._time.at(end_ns, lambda: self._arrive(going, end_ns))
        return True

    def _arrive(self, going: Leapt, end_ns: int) -> None:
        if self._going is going and going.ends_ns[-1] == end_ns:
            going.due = True
            self._wake()

    def _goes_on(self, going: Leapt) -> bool:
        """The last step that was worked out is over, and there may be further ones."""
        done = len(going.ends_ns)
        if going.is_cut or done >= going.most or not self._price(going):
            return False
        going.go_on(self._model)
        self._advance(going, done)
        return True

    def _cut(self, going: Leapt) -> None:
        """The step in flight is the last one."""
        going.is_cut = True
        del going.ends_ns[going.done + 1 :]
        end_ns = going.ends_ns[-1]
        self._time.at(end_ns, lambda: self._arrive(going, end_ns))

    def _advance(self, going: Leapt, done: int) -> None:
        """The steps up to this one have landed, and the one behind it is in flight."""
        self._tell(going, done, [])
        for step, rows in going.edges(going.done, done):
            self._publish(going, step, rows)
            size = self._pool.block_tokens
            self._take([one for one in rows if one.computed >= len(one.blocks) * size])
            self._news.marked(going.ends_ns[step - 1])
        self._count(going, done)
        self._launched(done - going.done)
        going.ticket.launched_ns = going.ends_ns[done - 1]
        going.done = done

    def _land(self, going: Leapt) -> None:
        """All of it has landed: as the engine lands a launch, others may share what is full, and who has all tokens
        ends. What may stir somebody is told by the engine itself, at the end of its turn."""
        engine, done = self._engine, len(going.ends_ns)
        special = [row for row, one in enumerate(going.rows) if done == min(going.rooms[row], going.left[row])]
        self._tell(going, done, special)
        for step, rows in going.edges(going.done, done):
            self._publish(going, step, rows)
            if step < done:
                size = self._pool.block_tokens
                self._take([one for one in rows if one.computed >= len(one.blocks) * size])
                self._news.marked(going.ends_ns[step - 1])
        self._count(going, done)
        self._launched(done - 1 - going.done)
        self._settle(going, done)
        self.steps += done
        engine._flight, self._going = None, None
        for row in special:
            request, sampled = going.rows[row], going.sampled(self._model, row, done)
            engine._take(request, sampled)

    def _tell(self, going: Leapt, done: int, special: Sequence[int]) -> None:
        """Tokens for requests and their clients; of the special rows the last one is not told here."""
        first = going.done
        told = [tokens[first:done] for tokens in going.tokens]
        for request, tokens in zip(going.rows, told, strict=True):
            request.tokens += tokens
        for row in special:
            told[row] = told[row][:-1]
        drawn = {row: going.drawn(self._model, row, first, first + len(told[row])) for row in going.with_logprobs}
        self._news.leapt(going.names, going.ends_ns[first:done], told, drawn)

    def _publish(self, going: Leapt, step: int, rows: Sequence[Request]) -> None:
        for request in rows:
            request.computed = going.computed(request, step)
            self._engine._scheduler.publish(request)

    def _take(self, rows: Sequence[Request]) -> None:
        """A block each, in the order in which the scheduler would give them."""
        for one in rows:
            one.give(*self._pool.take(one.id, 1, group=one.submit.group, phase="decode"))

    def _count(self, going: Leapt, done: int) -> None:
        steps, engine = done - going.done, self._engine
        for request in going.rows:
            request.computed = going.computed(request, done)
            request.launches += steps
        engine._generation_tokens += steps * len(going.rows)
        engine._progress_ns = going.ends_ns[done - 1]

    def _launched(self, steps: int) -> None:
        """What prices are drawn from goes on as if each had been launched."""
        self._engine._steps += steps
        self._device._seq += steps

    def _settle(self, going: Leapt, done: int) -> None:
        """Write KV and tags of the steps up to this one, and let the requests claim them."""
        if done == going.settled:
            return
        lines = [one.line for one in going.rows]
        reckon(lines)
        fed, places, slots, states = going.written(done)
        self._model.write(slots, states)
        self._pool.plane.leap(lines, fed, places, slots, done - going.settled)
        going.settled = done


def _no_work() -> Work:
    """A leap's ticket stands for launches that are not laid out."""
    none = np.zeros(0, np.int64)
    return Work(0, "", (), none, none, none, np.zeros(1, np.int64), none, (), (), ())
