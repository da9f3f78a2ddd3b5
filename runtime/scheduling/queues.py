"""Who waits and who runs, each in order of rank; nobody is in both."""

from bisect import insort

from runtime.scheduling.rank import Rank
from runtime.scheduling.request import Request, RequestState


class Queues:
    """The two lists of a scheduler. Read them; change them by the calls below only."""

    def __init__(self) -> None:
        self.waiting: list[Request] = []
        self.running: list[Request] = []

    def enqueue(self, request: Request) -> None:
        """Into the queue, by its rank: one that comes back has its old place."""
        request.state = RequestState.WAITING
        insort(self.waiting, request, key=_rank)

    def start(self, request: Request) -> None:
        """Out of the queue: it runs from now on."""
        self.waiting.remove(request)
        request.state = RequestState.RUNNING
        request.launches = 0
        insort(self.running, request, key=_rank)

    def back(self, request: Request) -> None:
        """It runs no longer and waits again."""
        self.running.remove(request)
        self.enqueue(request)

    def leave(self, request: Request) -> None:
        """Out of whichever list it is in."""
        (self.waiting if request.state is RequestState.WAITING else self.running).remove(request)


def _rank(request: Request) -> Rank:
    return request.rank
