"""The requests that their clients ended, by a cancel or by their own timeout, with what the server's journal says."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assertions.context import JudgeContext
from assertions.rows import HangUp, Served

LEFT = ("cancelled", "timeout")
"""The client's outcomes that may be its own doing; `cancel_ns` tells when it closed the connection."""
WASTED_MIN = 10
"""Clients that had left, and still had tokens to come, from which on the share of ignored hang-ups is judged."""
WASTED_SHARE = 0.5
"""The share above which a server does not look whether its clients are there."""
TO_COME = 8
"""Tokens that a client must still have had to come to be counted: the last few can be on their way."""


@dataclass(frozen=True)
class Leaver:
    """One request whose client left. Times are ns since the run's start, counts are tokens."""

    row: int
    id: str
    left_ns: float
    read: float
    asked: float
    served: Served | None
    hang_up: HangUp | None

    @property
    def end_ns(self) -> float | None:
        """When the engine ended the request, or else when the journal's row was written; None when nobody says it."""
        if self.hang_up is not None:
            return self.hang_up.end_ns
        return None if self.served is None else self.served.end_ns

    @property
    def generated(self) -> float | None:
        """Tokens that the server generated in all; None when it does not say."""
        if self.hang_up is not None:
            return self.hang_up.tokens
        return None if self.served is None else self.served.tokens_out

    @property
    def to_its_end(self) -> bool:
        """True when the engine generated the answer to its end."""
        if self.hang_up is not None:
            return self.hang_up.outcome == "ok"
        return self.served is not None and self.served.outcome == "ok"


def leavers(context: JudgeContext) -> Iterator[Leaver]:
    """The requests that the client ended, in the order of sending."""
    requests, hang_ups = context.history.requests, context.history.hang_ups
    rows = np.flatnonzero(requests.outcome.among(*LEFT) & ~np.isnan(requests.cancel_ns)).tolist()
    names = {requests.id[row] for row in rows}
    served: dict[str, Served] = {}
    for each in context.history.served() if names else ():
        if each.request in names:
            served.setdefault(each.request, each)
    for row in rows:
        name, read = requests.id[row], requests.chunks[row]
        yield Leaver(
            row=row,
            id=name,
            left_ns=float(requests.cancel_ns[row]),
            read=0.0 if np.isnan(read) else float(read),
            asked=float(requests.output_tokens_max[row]),
            served=served.get(name),
            hang_up=hang_ups.get(name),
        )
