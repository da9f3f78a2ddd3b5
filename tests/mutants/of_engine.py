"""Mutants of a request's life in the engine: launches in flight, endings, and the way to the host and back."""

from collections.abc import Sequence
from typing import Any

from runtime.core.messages import End, Ended
from runtime.core.ports import Ticket
from runtime.memory.kv.prefix import BlockHashes
from runtime.memory.kv.swap import Swapped, SwapSpace
from runtime.scheduling.request import Request, RequestState
from runtime.scheduling.scheduler import Scheduler
from tests.mutants.mutant import Function, Mutant, Subject
from tests.mutants.of_scheduler import (
    published_before_it_is_computed,
    thinks_it_has_computed,
    whatever_came_before,
)
from tests.runtime.test_engine_machine import EngineMachine


def goes_on_after_its_end(sound: Function) -> Function:
    """What lands later is still for it."""

    def ended(self: Request, end: End, now_ns: int) -> Ended:
        told: Ended = sound(self, end, now_ns)
        self.state = RequestState.RUNNING
        return told

    return ended


def one_token_late(sound: Function) -> Function:
    def finish_reason(self: Request) -> str | None:
        found: str | None = sound(self)
        return None if found == "length" and len(self.tokens) == self.limit else found

    return finish_reason


def in_the_wrong_order(sound: Function) -> Function:
    def swap_in(self: SwapSpace, owner: str, swapped: Swapped, blocks: Sequence[int], **words: Any) -> Ticket:
        ticket: Ticket = sound(self, owner, swapped, tuple(reversed(blocks)), **words)
        return ticket

    return swap_in


def never_given_up(sound: Function) -> Function:
    def free(self: SwapSpace, swapped: Swapped, after: Ticket | None) -> None:
        del self._held[swapped.span]

    return free


SUBJECTS = (
    Subject(
        EngineMachine,
        (
            Mutant("blocks are published before they are computed", Scheduler, "_add", published_before_it_is_computed),
            Mutant("a block is found in a foreign context", BlockHashes, "keys_for", whatever_came_before),
            Mutant("who has ended goes on", Request, "ended", goes_on_after_its_end),
            Mutant("an answer ends one token late", Request, "finish_reason", one_token_late),
            Mutant("who is preempted goes on without its KV", Request, "strip", thinks_it_has_computed),
            Mutant("swapped blocks come back in another order", SwapSpace, "swap_in", in_the_wrong_order),
            Mutant("a swapped request keeps its place on the host", SwapSpace, "free", never_given_up),
        ),
    ),
)
