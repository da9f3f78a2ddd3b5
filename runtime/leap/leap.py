"""Launches that are not laid out, and many steps in one flight, in virtual time: what they do is in scripts.

    engine plans a batch -> [leap: step 1 is the batch, then step 2, ... step k] -> land -> plan the next as ever
                             ^ a request comes: the step in flight is the last one
                             ^ somebody looks (a sample, a hang-up): the steps before now are landed, the leap goes on
                             ^ a cancel, a deadline, a fault: the step in flight is handed to the device as a launch

There are further steps while the scheduler could plan nothing else for them than one token for each row: nobody who
waits can come in, and there are blocks. A leap goes no further than the first step in which a request ends or its
client leaves. Each step has its own end, and what would be told of it is told with that stamp.

So a run with leaps has the same history as one without; a test holds the two together. What it saves is laying out,
checking, computing and landing k launches. While a fault is armed, or where KV is not as it should be, there is none.

Damage that comes while a leap goes on is seen when it is over: by the next one, or by the end of a request.

It is the engine's friend and moves its counters and its flight; live engines have none.
"""

from collections.abc import Callable

import numpy as np

from runtime.core.edge import Submit
from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.core.work import Work
from runtime.device.costs import Priced
from runtime.device.sim import SimDevice
from runtime.device.virtual_time import VirtualTime
from runtime.engine import Engine, Flight
from runtime.leap.effects import Effects
from runtime.leap.leapt import Leapt
from runtime.leap.news import News
from runtime.leap.reach import steps_behind
from runtime.leap.script import Script, Scripts
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.batch import Batch, Row, bind
from runtime.scheduling.request import Phase
from runtime.scheduling.scheduler import Limits

STRETCH = 64
"""Steps that are worked out ahead at most, since what comes may end the leap sooner."""
_NONE = np.zeros(0, np.int64)
_NO_WORK = Work(0, "", (), _NONE, _NONE, _NONE, np.zeros(1, np.int64), _NONE, (), (), ())
"""What the ticket of a launch says that is not laid out."""


class Leap:
    """Called by the engine before it lays out a batch; `turn` and `catch_up` by the world."""

    def __init__(
        self,
        engine: Engine,
        env: Env,
        pool: PagedPool,
        limits: Limits,
        scripts: Scripts,
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
        self._scripts = scripts
        self._device = device
        self._costs = costs
        self._time = time
        self._late_ns = late_ns
        self._news = news
        self._effects = Effects(engine, pool, scripts, news)
        self._wake = wake
        self._going: Leapt | None = None
        self.steps = 0
        """Leapt over so far."""

    def __call__(self, batch: Batch, step: int) -> Ticket | None:
        """Begin a leap with `batch`, whose launch is step `step`; None where it must be laid out and launched."""
        if self._env.faults.armed or not self._device.idle:
            return None
        scripts: list[Script] = []
        for row in batch.rows:
            script = self._scripts.of(row.request)
            if script is None:
                return None
            scripts.append(script)
        rows = [row.request for row in batch.rows]
        if not self._scripts.intact(rows, scripts):
            return None  # a real launch finds the same, and tells
        untold = [output.request_id for output in self._engine._outputs]
        fresh = [one.id for one in rows if one.first_ns is None]
        rooms = self._news.rooms([one.id for one in rows], untold, fresh)
        going = Leapt(batch, scripts, rooms)
        return going.ticket if self._begin(going, step) else None

    def turn(self) -> bool:
        """Before a turn of the engine. False: it is not needed."""
        going = self._going
        if going is None:
            return True
        mail = self._engine.mailbox._mail
        if going.due:
            if mail or self._env.faults.armed:
                self.hand_over()
            elif not self._goes_on(going):
                self._land(going)
            else:
                return False
            return True
        if any(not isinstance(one, Submit) for one in mail) or self._guarded():
            self.hand_over()
        elif mail:
            self._cut(going)
        else:
            return False
        return True

    def _guarded(self) -> bool:
        """Whether a deadline has come: of a request, or of the launch that is really in flight."""
        if self._engine.wait_s() != 0.0:
            return False
        self.catch_up()
        return self._engine.wait_s() == 0.0

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
        self._effects.settle(going, going.done)
        self.steps += going.done
        engine, batch = self._engine, going.batch
        if going.done:
            batch = Batch("", tuple([Row(request, 1) for request in going.rows]))
        work = bind(batch, engine._steps, self._pool.block_tokens).work
        engine._flight = Flight(batch, going.ticket, 0)
        self._device.resume(going.ticket, work, going.ends_ns[going.done])

    # -- one leap -----------------------------------------------------------------------------------------------------

    def _begin(self, going: Leapt, step: int) -> bool:
        """Of rows whose KV was compared. False: its first step would be late, which is an event of its own."""
        size = self._pool.block_tokens
        writes: list[int] = []
        for one, first in zip(going.rows, going.firsts, strict=True):
            writes += one.blocks[first // size :]
        self._pool.check_writes(writes)
        if not self._engine._due:
            going.most += steps_behind(going, self._engine._scheduler, self._pool, self._limits)
        if not self._price_first(going, step):
            return False
        for one in going.rows:
            one.doubted = False
        self._going = going
        return True

    def _price_first(self, going: Leapt, step: int) -> bool:
        """The end of step 1 and of as many behind it as come before the next thing planned. False: it is late."""
        rows, now_ns = len(going.rows), self._time.now_ns()
        decodes = [end for first, end in zip(going.firsts, going.ends, strict=True) if end - first == 1]
        if len(decodes) == rows:
            cost_ns = self._costs.decode_ns(step, rows, sum(decodes))
        else:
            prompt_tokens = sum(going.ends) - sum(going.firsts) - len(decodes)
            cost_ns = self._costs.mixed_ns(step, prompt_tokens, len(decodes), sum(decodes))
        if cost_ns >= self._late_ns:
            return False
        going.ends_ns.append(now_ns + cost_ns)
        going.ticket = self._device.begin(_NO_WORK)
        self._price(going, step)
        return True

    def _price(self, going: Leapt, step: int) -> None:
        """Ends of further steps, behind `step`, up to the first that is over after the next thing planned."""
        ends, rows = going.ends_ns, len(going.rows)
        was, next_ns = len(ends), self._time.next_ns
        ahead = min(STRETCH, going.most - was)
        if ahead > 0 and (next_ns is None or ends[-1] <= next_ns):
            context = sum(going.ends) + was * rows
            ends += self._costs.decodes_ns(step + 1, rows, context, ends[-1], ahead, next_ns, self._late_ns)
        end_ns = ends[-1]
        going.due = False
        self._time.at(end_ns, lambda: self._arrive(going, end_ns))

    def _arrive(self, going: Leapt, end_ns: int) -> None:
        if self._going is going and going.ends_ns[-1] == end_ns:
            going.due = True
            self._wake()

    def _goes_on(self, going: Leapt) -> bool:
        """The last step that was worked out is over, and there may be further ones."""
        done = len(going.ends_ns)
        if going.is_cut or done >= going.most:
            return False
        self._price(going, self._engine._steps + done - 1 - going.done)
        if len(going.ends_ns) == done:
            return False
        self._advance(going, done)
        return True

    def _cut(self, going: Leapt) -> None:
        """The step in flight is the last one. What has landed is told, since who comes may be refused, and that too."""
        self.catch_up()
        going.is_cut = True
        del going.ends_ns[going.done + 1 :]
        end_ns = going.ends_ns[-1]
        self._time.at(end_ns, lambda: self._arrive(going, end_ns))

    def _advance(self, going: Leapt, done: int) -> None:
        """The steps up to this one have landed, and the one behind it is in flight."""
        self._effects.tell(going, done, [])
        self._effects.fill(going, done, done)
        self._effects.count(going, done)
        self._launched(done - going.done)
        going.ticket.launched_ns = going.ends_ns[done - 1]
        going.done = done

    def _land(self, going: Leapt) -> None:
        """All of it has landed: as the engine lands a launch, others may share what is full, and who has all tokens
        ends. What may stir somebody is told by the engine itself, at the end of its turn."""
        engine, done = self._engine, len(going.ends_ns)
        special = [
            row for row, drawn in enumerate(going.samples) if drawn and done >= min(going.rooms[row], going.left[row])
        ]
        self._effects.tell(going, done, special)
        self._effects.fill(going, done, done - 1)
        self._effects.count(going, done)
        self._launched(done - 1 - going.done)
        self._effects.settle(going, done)
        self.steps += done
        self._device.leave()
        engine._flight, self._going = None, None
        for row in special:
            request, script = going.rows[row], going.scripts[row]
            engine._take(request, self._scripts.sampled(request, script, going.ends[row] + done - 2))
        if special and going.is_whole:
            self._follow(going, done)

    def _follow(self, going: Leapt, done: int) -> None:
        """Somebody has ended, and nothing else has happened: the others go on at once, as they would be planned to."""
        engine, pool, size = self._engine, self._pool, self._pool.block_tokens
        rest = [row for row, one in enumerate(going.rows) if one.phase is Phase.RUNNING]
        rest.sort(key=lambda row: going.rows[row].rank)
        scheduler = engine._scheduler
        if not rest or len(rest) < len(scheduler.running) or scheduler.waiting or engine.mailbox._mail:
            return
        rooms = [going.rooms[row] - done for row in rest]
        rows, scripts = [going.rows[row] for row in rest], [going.scripts[row] for row in rest]
        takers = [one for one in rows if one.computed >= len(one.blocks) * size]
        if min(rooms) <= 0 or len(takers) > pool.reclaimable or not self._scripts.intact(rows, scripts):
            return
        for one, block, generation in zip(takers, *pool.take_each([one.owner for one in takers]), strict=True):
            one.give((block,), (generation,))
        batch = Batch("", tuple([Row(one, 1) for one in rows]))
        after = Leapt(batch, scripts, rooms)
        if self._begin(after, engine._steps + 1):
            engine._steps += 1
            engine._flight = Flight(batch, after.ticket, 0)

    def _launched(self, steps: int) -> None:
        """What prices are drawn from goes on as if each had been launched."""
        self._engine._steps += steps
        self._device.leapt(steps)
