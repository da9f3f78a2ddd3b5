"""The waiting and the running requests, each in order of rank; no request is in both."""

from bisect import insort

from runtime.scheduling.rank import Rank
from runtime.scheduling.request import Request, RequestState


class Queues:
    """The two lists of a scheduler. Others read them; only the methods change them."""

    def __init__(self) -> None:
        self.waiting: list[Request] = []
        self.running: list[Request] = []

    def enqueue(self, request: Request) -> None:
        """Insert `request` into the waiting list by its rank. A preempted request gets its old place."""
        request.state = RequestState.WAITING
        insort(self.waiting, request, key=_rank)

    def start(self, request: Request) -> None:
        """Move `request` from waiting to running."""
        self.waiting.remove(request)
        request.state = RequestState.RUNNING
        request.launches = 0
        insort(self.running, request, key=_rank)

    def requeue(self, request: Request) -> None:
        """Move `request` from running to waiting."""
        self.running.remove(request)
        self.enqueue(request)

    def remove(self, request: Request) -> None:
        """Remove `request` from the list that it is in."""
        (self.waiting if request.state is RequestState.WAITING else self.running).remove(request)


def _rank(request: Request) -> Rank:
    return request.rank
