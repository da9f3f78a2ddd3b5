"""Layers 7 and 8: cancels, deadlines, counts that are not taken back."""

from dataclasses import replace

import pytest

from runtime.core.errors import AdmissionRefused, MailboxFull
from runtime.engine.engine import Engine
from runtime.engine.open_requests import OpenRequests
from runtime.guard.watchdog import Watchdog
from runtime.scheduling.scheduler import Scheduler
from runtime.server.admission import Admission
from tests.planted.zoo.bug import Every, bug


@bug("Z103", "cancel", "clean-up runs only when blocks are there", "pr-leave", "requests.open")
def cleaned_up_only_with_blocks(patch: pytest.MonkeyPatch) -> None:
    end = OpenRequests.end

    def partly(self, request, how, tokens=()):
        waiting = not request.blocks and how.outcome == "cancelled"
        end(self, request, how, tokens)
        if waiting:
            self.by_id[request.id] = request

    patch.setattr(OpenRequests, "end", partly)


@bug("Z106", "cancel", "the session of a client that left is not given back", "pr-leave", "open")
def session_kept(patch: pytest.MonkeyPatch) -> None:
    over = Admission.over

    def kept(self, session):
        over(self, session)
        if session.gone is not None:
            self.open[session.caller.server_id] = session

    patch.setattr(Admission, "over", kept)


@bug("Z107", "cancel", "an abort is told and does not reach the request", "pr-no-sharing", "client had left")
def abort_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "_cancel", lambda self, request_id, why: None)


@bug("Z109", "cancel", "a cancel near the start takes a place for ever", "pr-leave", "timeout")
def place_lost_on_cancel(patch: pytest.MonkeyPatch) -> None:
    cancel = Engine._cancel

    def loses_a_place(self, request_id, why):
        cancel(self, request_id, why)
        limits = self.scheduler._limits
        self.scheduler._limits = replace(limits, seqs_max=max(1, limits.seqs_max - 1))

    patch.setattr(Engine, "_cancel", loses_a_place)


@bug("Z110", "cancel", "the count of waiters is not lowered when one leaves", "pr-leave", "refused")
def waiters_counted_up(patch: pytest.MonkeyPatch) -> None:
    cancel, admit, lost = Engine._cancel, Scheduler.admit, [0]

    def counted(self, request_id, why):
        request = self.requests.get(request_id)
        lost[0] += request is not None and request.admit_ns is None
        cancel(self, request_id, why)

    def refused(self, submit):
        if lost[0] > 20:
            raise MailboxFull(lost[0])
        return admit(self, submit)

    patch.setattr(Engine, "_cancel", counted)
    patch.setattr(Scheduler, "admit", refused)


@bug("Z115", "health", "one value of a request ends the engine for all", "pr-no-sharing", "degenerate")
def degenerate_value(patch: pytest.MonkeyPatch) -> None:
    add = Scheduler._add

    def validated_late(self, request, budget, rows):
        if request.submit.max_tokens == 33:
            raise ValueError("degenerate: 33")
        return add(self, request, budget, rows)

    patch.setattr(Scheduler, "_add", validated_late)


@bug("Z118", "health", "tokens of aborted requests are not counted", "pr-leave", "tokens")
def aborted_not_counted(patch: pytest.MonkeyPatch) -> None:
    end = OpenRequests.end

    def uncounted(self, request, how, tokens=()):
        if how.outcome == "cancelled":
            self._progress.generation_tokens -= request.generated
        end(self, request, how, tokens)

    patch.setattr(OpenRequests, "end", uncounted)


@bug("Z121", "health", "a leak is told as 429 though nothing waits", "pr-burst", "refused")
def leak_as_overload(patch: pytest.MonkeyPatch) -> None:
    admit, seen = Scheduler.admit, [0]

    def overloaded(self, submit):
        seen[0] += 1
        if seen[0] > 100 and not self.waiting:
            raise AdmissionRefused("overloaded")
        return admit(self, submit)

    patch.setattr(Scheduler, "admit", overloaded)


@bug("Z125", "drift", "a seat is lost with every few requests", "pr-leave", "timeout")
def seat_lost(patch: pytest.MonkeyPatch) -> None:
    end, now = OpenRequests.end, Every(10)

    def loses(self, request, how, tokens=()):
        end(self, request, how, tokens)
        if now():
            limits = self.scheduler._limits
            self.scheduler._limits = replace(limits, seqs_max=max(1, limits.seqs_max - 1))

    patch.setattr(OpenRequests, "end", loses)


@bug("Z104", "cancel", "deadlines are not watched after a client left", "pr-leave", "deadline")
def deadlines_unwatched(patch: pytest.MonkeyPatch) -> None:
    expired, cancel, left = Watchdog.expired, Engine._cancel, [0]

    def leaves(self, request_id, why):
        left[0] += 1
        cancel(self, request_id, why)

    patch.setattr(Engine, "_cancel", leaves)
    patch.setattr(Watchdog, "expired", lambda self, now_ns: [] if left[0] > 30 else expired(self, now_ns))
