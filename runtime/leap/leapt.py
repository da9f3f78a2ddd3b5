"""One leap: who is in it, and when its steps end.

step      1           2           3                    of a row: tokens `first` up to `end` are fed in step 1, then one
ends_ns   |-----------|-----------|----------> in flight
done      landed and told so far; KV and tags are written when it is over
"""

from runtime.core.ports import Ticket
from runtime.leap.script import Script
from runtime.scheduling.batch import Batch
from runtime.scheduling.request import Request


class Leapt:
    """At most `most` steps, the first of them a planned batch. `rooms`: by row, in which step its client leaves, or
    more; `left`: in which it ends. More steps than one only if each row is computed to its end in the first: filled by
    who begins it."""

    __slots__ = (
        "batch",
        "done",
        "due",
        "ends",
        "ends_ns",
        "firsts",
        "is_cut",
        "is_plain",
        "is_whole",
        "left",
        "most",
        "names",
        "rooms",
        "rows",
        "samples",
        "scripts",
        "ticket",
        "with_logprobs",
    )

    def __init__(self, batch: Batch, scripts: list[Script], rooms: list[int]) -> None:
        self.batch = batch
        self.rows: list[Request] = [row.request for row in batch.rows]
        self.names = [one.id for one in self.rows]
        self.scripts = scripts
        self.firsts = [one.computed for one in self.rows]
        self.ends = [one.computed + row.tokens for one, row in zip(self.rows, batch.rows, strict=True)]
        self.samples = [end == len(one.tokens) for one, end in zip(self.rows, self.ends, strict=True)]
        """By row, whether a token is drawn in step 1, since it is computed to its end. `is_whole`: all are."""
        self.is_whole = all(self.samples)
        self.is_plain = (
            self.is_whole
            and sum(self.ends) - sum(self.firsts) == len(self.rows)
            and None not in [one.first_ns for one in self.rows]
        )
        """Whether nothing but decode is in it: each row has its first token and gets one more."""
        self.rooms = rooms
        self.left = [one.limit - len(one.tokens) for one in self.rows]
        self.most = 1
        self.ticket: Ticket
        """Of the step in flight. Filled by who begins it."""
        self.with_logprobs = [row for row, one in enumerate(self.rows) if one.submit.sampling.logprobs is not None]
        self.ends_ns: list[int] = []
        self.due = False
        """The last of these has come."""
        self.is_cut = False
        self.done = 0

    def over_by(self, now_ns: int) -> int:
        """Steps that ended before now; the last one that was worked out is landed by itself."""
        ends, done = self.ends_ns, self.done
        while done < len(ends) - 1 and ends[done] < now_ns:
            done += 1
        return done

    def edges(self, last: int, size: int) -> list[tuple[int, int, int]]:
        """(step, row, full blocks of `size`) of those behind `done`, up to `last`, with something to publish, in order:
        a block that is filled, or in step 1 any number that were or that have come from the host."""
        found: list[tuple[int, int, int]] = []
        first = self.done
        for row, end in enumerate(self.ends):
            at = end - 1 + first
            step = first + size - at % size
            if first == 0 and step > 1 and end // size > self.rows[row].published:
                found.append((1, row, end // size))
            while step <= last:
                found.append((step, row, (end - 1 + step) // size))
                step += size
        found.sort()
        return found
