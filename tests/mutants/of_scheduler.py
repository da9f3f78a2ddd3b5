"""Mutants of the scheduler: budget, seats, blocks, order, and what is left behind of a request that does not run."""

import dataclasses

from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import BlockHashes, BlockKey
from runtime.scheduling.batch import Row
from runtime.scheduling.preemption import Preemption
from runtime.scheduling.queues import Queues
from runtime.scheduling.request import Request, RequestState
from runtime.scheduling.scheduler import Scheduler
from tests.mutants.mutant import Function, Mutant, Subject
from tests.runtime.scheduling.test_scheduler_machine import SchedulerMachine


def one_token_too_many(sound: Function) -> Function:
    return lambda self, request, budget: sound(self, request, budget + 1)


def ends_anywhere(sound: Function) -> Function:
    return lambda self, request, budget: min(request.remaining, budget)


def one_seat_more(sound: Function) -> Function:
    def rows(self: Scheduler) -> list[Row]:
        limits = self._limits
        self._limits = dataclasses.replace(limits, seqs_max=limits.seqs_max + 1)
        found: list[Row] = sound(self)
        self._limits = limits
        return found

    return rows


def first_row_twice(sound: Function) -> Function:
    def rows(self: Scheduler) -> list[Row]:
        found: list[Row] = sound(self)
        return found + found[:1]

    return rows


def one_token_less(sound: Function) -> Function:
    """blocks_for(5) of blocks of 4 is 1."""
    return lambda self, tokens: sound(self, tokens - 1)


def newest_first(sound: Function) -> Function:
    def enqueue(self: Queues, request: Request) -> None:
        request.state = RequestState.WAITING
        self.waiting.insert(0, request)

    return enqueue


def behind_all_others(sound: Function) -> Function:
    def enqueue(self: Queues, request: Request) -> None:
        request.state = RequestState.WAITING
        self.waiting.append(request)

    return enqueue


def is_forgotten(sound: Function) -> Function:
    def back(self: Queues, request: Request) -> None:
        sound(self, request)
        self.waiting.remove(request)

    return back


def dropped_when_there_is_no_room(sound: Function) -> Function:
    def begin(self: Scheduler, request: Request, budget: int, rows: list[Row]) -> int:
        tokens: int = sound(self, request, budget, rows)
        if not tokens:
            self.waiting.remove(request)
        return tokens

    return begin


def keeps_what_it_shares(sound: Function) -> Function:
    """Not let in after all, and still it holds the prefix that it would have begun behind."""

    def begin(self: Scheduler, request: Request, budget: int, rows: list[Row]) -> int:
        cached = self._cached(request)
        if not self._capacity.fits(request, cached):
            return 0
        if cached:
            request.adopt_prefix(cached, self._pool.share(request.owner, cached))
        return self._add(request, budget, rows)

    return begin


def keeps_its_blocks(sound: Function) -> Function:
    def start_over(self: Preemption, request: Request) -> None:
        self._queues.requeue(request)

    return start_over


def thinks_it_has_computed(sound: Function) -> Function:
    """Its blocks are gone, and it goes on where it was."""

    def strip(self: Request) -> list[int]:
        computed, tags = self.computed, self.tags
        blocks: list[int] = sound(self)
        self.computed, self.tags = computed, tags
        return blocks

    return strip


def published_before_it_is_computed(sound: Function) -> Function:
    def add(self: Scheduler, request: Request, budget: int, rows: list[Row]) -> int:
        tokens: int = sound(self, request, budget, rows)
        request.computed += tokens
        self.publish(request)
        request.computed -= tokens
        return tokens

    return add


def without_the_launch(sound: Function) -> Function:
    return lambda self, request, after: sound(self, request, None)


def whatever_came_before(sound: Function) -> Function:
    """A block is found by its own tokens, in whatever context they were computed."""

    def reach(self: BlockHashes, tokens: list[int], blocks: int) -> list[BlockKey]:
        size = self._block_tokens
        alone = (BlockHashes(size, self._salt) for _ in range(blocks))
        return [sound(line, tokens[at * size : (at + 1) * size], 1)[0] for at, line in enumerate(alone)]

    return reach


SUBJECTS = (
    Subject(
        SchedulerMachine,
        (
            Mutant("the budget is exceeded by one token", Scheduler, "_chunk", one_token_too_many),
            Mutant("a chunk ends inside of a block", Scheduler, "_chunk", ends_anywhere),
            Mutant("there is one seat too many", Scheduler, "_rows", one_seat_more),
            Mutant("a request has two rows", Scheduler, "_rows", first_row_twice),
            Mutant("blocks are counted for one token less", PagedPool, "blocks_for", one_token_less),
            Mutant("the newest is first in the queue", Queues, "enqueue", newest_first),
            Mutant("who is preempted loses its place", Queues, "enqueue", behind_all_others),
            Mutant("who is preempted is forgotten", Queues, "requeue", is_forgotten),
            Mutant("who finds no room is dropped", Scheduler, "_begin", dropped_when_there_is_no_room),
            Mutant("who is not let in keeps what it shares", Scheduler, "_begin", keeps_what_it_shares),
            Mutant("who is preempted keeps its blocks", Preemption, "_start_over", keeps_its_blocks),
            Mutant("who is preempted goes on without its KV", Request, "strip", thinks_it_has_computed),
            Mutant("blocks are published before they are computed", Scheduler, "_add", published_before_it_is_computed),
            Mutant("blocks do not wait for the launch in flight", Scheduler, "remove", without_the_launch),
            Mutant("a block is found in a foreign context", BlockHashes, "keys_for", whatever_came_before),
        ),
    ),
)
