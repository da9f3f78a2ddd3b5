"""Standstill: open requests that do not move, and the graph of who waits for what.

    chat-9 -> the place of chat-7 in the queue -> blocks 3, 4 -> ticket 17 (swap out of chat-2), which was done 12 s ago

A wait for a ticket that the device still has is no standstill: the watchdog bounds that one. All else that is older
than the bound is a mistake of the runtime. The state is only read, so that any thread can look at an engine that does
not step.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runtime.core.env import Env
from runtime.core.messages import Mail, Submit
from runtime.core.ports import Ticket
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.request import Request, RequestState
from runtime.scheduling.scheduler import Scheduler

LOOK_NS = 1_000_000_000
LOOKS_MIN = 3
SHOWN_MAX = 4
"""Requests, blocks and waits of each kind that a text names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The state of an engine at one moment."""

    env: Env
    pool: PagedPool
    scheduler: Scheduler
    seqs_max: int
    """Most requests that run."""
    mail: Sequence[Mail]
    """Mail that the engine has not read."""
    flight: Ticket | None
    flown: Sequence[Request]
    """The requests in the launch in flight."""
    holds: Callable[[Ticket], bool]
    """True for a ticket that the device has: queued, running, or with a report that a fault delays."""
    moved_ns: int
    """The time (ns) at which a launch or a copy last landed."""

    @property
    def now_ns(self) -> int:
        return self.env.clock.now_ns()

    @property
    def full(self) -> bool:
        """True when no further request may run, whatever blocks are free."""
        return len(self.scheduler.running) >= self.seqs_max

    @property
    def tickets(self) -> Iterator[Ticket]:
        """All launches and copies in flight."""
        if self.flight is not None:
            yield self.flight
        yield from list(self.scheduler.preemption.copies)


class StandstillWatch:
    """Looks once a second and records an event `stalled` when a standstill is found LOOKS_MIN times in a row."""

    def __init__(self, env: Env, bound_s: float, find: Callable[[int], str | None]) -> None:
        """`find` returns the standstill of at least so many ns; see `standstill`."""
        self._env = env
        self._bound_ns = round(bound_s * 1e9)
        self._find = find
        self._due_ns = 0
        self._found = 0

    def look(self) -> str | None:
        """Look, if a second has passed. Return the standstill when it is recorded, which it is once."""
        now_ns = self._env.clock.now_ns()
        if now_ns < self._due_ns:
            return None
        slept = now_ns - self._due_ns > LOOK_NS  # this process stood still itself, and the engine with it
        self._due_ns = now_ns + LOOK_NS
        found = self._find(self._bound_ns)
        self._found = 0 if found is None or slept else self._found + 1
        if found is None or self._found != LOOKS_MIN:
            return None
        self._env.tell("stalled", "", found)
        return found


def standstill(scene: Scene, bound_ns: int) -> str | None:
    """Return what stands still for `bound_ns` and who waits for it; None when nothing does."""
    cause = next(_lost_tickets(scene, bound_ns), None) or next(_kept_blocks(scene, bound_ns), None)
    if cause is None:
        cause = _nobody_moves(scene, bound_ns)
    return None if cause is None else "; ".join([cause, *waits(scene)])


def waits(scene: Scene) -> list[str]:
    """Return the graph of who waits for what, the head of the queue first."""
    return [*_waits_of_queue(scene), *_waits_of_running(scene), *_waits_of_limbo(scene), *_waits_of_mail(scene)]


# -- causes ----------------------------------------------------------------------------------------------------------


def _lost_tickets(scene: Scene, bound_ns: int) -> Iterator[str]:
    """Yield the tickets whose completion was lost on its way: to the ledger, or from there to the engine."""
    for ticket in scene.tickets:
        held, now_ns = scene.holds(ticket), scene.now_ns  # in this order: the device reports before it lets go
        if ticket.done_ns is not None:
            if now_ns - ticket.done_ns >= bound_ns:
                yield f"{_name(ticket)} was done {_ago(now_ns, ticket.done_ns)} and has not landed"
        elif not held and now_ns - ticket.launched_ns >= bound_ns:
            launched = _ago(now_ns, ticket.launched_ns)
            yield f"the completion of {_name(ticket)}, launched {launched}, is lost: the device has it no more"


def _kept_blocks(scene: Scene, bound_ns: int) -> Iterator[str]:
    """Yield the items in limbo whose ticket has landed."""
    now_ns, in_flight = scene.now_ns, list(scene.tickets)
    for entry in scene.env.ledger.limbo():
        done_ns = entry.after.done_ns
        if done_ns is not None and now_ns - done_ns >= bound_ns and entry.after not in in_flight:
            what = f"{entry.pool} {_few(entry.items)} of {entry.owner}"
            yield f"{what} were never released: {_name(entry.after)} was done {_ago(now_ns, done_ns)}"


def _nobody_moves(scene: Scene, bound_ns: int) -> str | None:
    """Return why requests that could go on do not; None when one has moved, or waits for the device."""
    scheduler, now_ns = scene.scheduler, scene.now_ns
    waiting, running = list(scheduler.waiting), list(scheduler.running)
    unread = [mail for mail in scene.mail if isinstance(mail, Submit)]
    since = [one.submit.arrive_ns for one in (*waiting, *running)] + [submit.arrive_ns for submit in unread]
    if not since or now_ns - max(scene.moved_ns, min(since)) < bound_ns or any(map(scene.holds, scene.tickets)):
        return None
    moved = f"nothing has moved for {(now_ns - max(scene.moved_ns, min(since))) / 1e9:.1f} s"
    if scene.env.faults.armed:
        return None  # a fault may refuse blocks and admissions for as long as it is armed
    if not running and not waiting:
        return f"{moved}: the engine does not read its mail"
    if waiting and not scene.full and scheduler.capacity_check(waiting[0]).fits():
        return f"{moved}: {waiting[0].id}, the head of the queue, fits and is not admitted"
    if running and scene.flight is None:
        return f"{moved}: {_few([one.id for one in running])} run, and no launch is made for them"
    return f"{moved}: {waiting[0].id if waiting else running[0].id} waits for what nobody gives back"


# -- waits -----------------------------------------------------------------------------------------------------------


def _waits_of_queue(scene: Scene) -> Iterator[str]:
    waiting, scheduler = list(scene.scheduler.waiting), scene.scheduler
    if not waiting:
        return
    head, behind = waiting[0], waiting[1:]
    if behind:
        yield f"{_few([one.id for one in behind])} -> the place of {head.id} in the queue"
    if head.swapped is not None and head.swapped.ticket in scheduler.preemption.copies:
        yield f"{head.id} -> {_name(head.swapped.ticket)}"
    elif scene.full:
        yield f"{head.id} -> a place in the batch, which {_few([one.id for one in scheduler.running])} have"
    else:
        need, count = scene.pool.blocks_for(len(head.tokens) + 1), scene.pool.count()
        yield f"{head.id} -> {need} KV blocks ({count.reclaimable} reclaimable, {count.limbo} in limbo)"
        yield from _holders(scene)


def _holders(scene: Scene) -> Iterator[str]:
    """Yield the owners of blocks, those that have ended first: they never give any back."""
    scheduler = scene.scheduler
    alive = {one.id for one in (*scheduler.running, *scheduler.waiting)}
    held = {owner: items for pool, owner, items in scene.env.ledger.outstanding() if pool == scene.pool.name}
    ended = [f"{owner} ({items})" for owner, items in held.items() if owner not in alive]
    if ended:
        yield f"KV blocks -> {_few(ended)}, which have ended and hold them"
    if running := [f"{owner} ({items})" for owner, items in held.items() if owner in alive]:
        yield f"KV blocks -> {_few(running)}"


def _waits_of_running(scene: Scene) -> Iterator[str]:
    flown = [one.id for one in scene.flown]
    running = [one for one in list(scene.scheduler.running) if one.state is RequestState.RUNNING]
    for one in [one for one in running if one.copying is not None][:SHOWN_MAX]:
        assert one.copying is not None
        yield f"{one.id} -> {_name(one.copying)}"
    if scene.flight is not None and flown:
        yield f"{_few(flown)} -> {_name(scene.flight)}"
    if left := [one.id for one in running if one.copying is None and one.id not in flown]:
        yield f"{_few(left)} -> a row in the next launch"


def _waits_of_limbo(scene: Scene) -> Iterator[str]:
    for entry in scene.env.ledger.limbo()[:SHOWN_MAX]:
        yield f"{entry.pool} {_few(entry.items)} -> {_name(entry.after)}"


def _waits_of_mail(scene: Scene) -> Iterator[str]:
    if unread := [mail.request_id for mail in scene.mail if isinstance(mail, Submit)]:
        yield f"{_few(unread)} -> the engine's next step, which reads the mail"


def _name(ticket: Ticket) -> str:
    return f"ticket {ticket.seq} ({ticket.work})"


def _ago(now_ns: int, then_ns: int) -> str:
    return f"{(now_ns - then_ns) / 1e9:.1f} s ago"


def _few(names: Sequence[object]) -> str:
    shown = ", ".join(map(str, names[:SHOWN_MAX]))
    return shown if len(names) <= SHOWN_MAX else f"{shown} and {len(names) - SHOWN_MAX} more"
