"""One leap: who is in it, when its steps end, and what is computed in them.

step      1           2           3                    of each row: token `computed` is fed in step 1, and so on
ends_ns   |-----------|-----------|----------> in flight
done      landed and told so far; settled: of these, KV and tags are written
"""

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from runtime.core.ports import Ticket
from runtime.core.work import Ints, Sampled
from runtime.device.keyed import KeyedModel
from runtime.scheduling.request import Request

Words = npt.NDArray[np.uint64]


class Leapt:
    """At most `most` steps of `rows`. `rooms`: by row, in which step its client leaves, or more."""

    def __init__(self, rows: list[Request], rooms: list[int], most: int, ticket: Ticket, block_tokens: int) -> None:
        self.rows = rows
        self.names = [one.id for one in rows]
        self.rooms = rooms
        self.left = [one.limit - len(one.tokens) for one in rows]
        """By row, in which step it ends."""
        self.most = most
        self.ticket = ticket
        """Of the step in flight."""
        self.with_logprobs = [row for row, one in enumerate(rows) if one.submit.sampling.logprobs is not None]
        self.ends_ns: list[int] = []
        self.due = False
        """The last of these has come."""
        self.is_cut = False
        self.done = 0
        self.settled = 0
        self.tokens: list[list[int]] = []
        """By row: what is drawn in each step that was worked out."""
        self._size = block_tokens
        self._starts = [one.computed for one in rows]
        self._by_id = dict(zip(self.names, self._starts, strict=True))
        self.context = sum(self._starts) + len(rows)
        """Tokens of KV once step 1 is done."""

    def over_by(self, now_ns: int) -> int:
        """Steps that ended before now; the last one that was worked out is landed by itself."""
        ends, done = self.ends_ns, self.done
        while done < len(ends) - 1 and ends[done] < now_ns:
            done += 1
        return done

    def begin(self, model: KeyedModel, states: Words) -> None:
        """Work out as many steps as have ends; `states` are what the KV holds before step 1."""
        self._places = np.asarray(self._starts)
        self._rows = np.arange(len(self.rows))[:, None]
        fed = np.asarray([one.tokens[-1] for one in self.rows])
        self._states, self._drawn = model.go_on(states, fed, self._places, len(self.ends_ns))
        self._fed = fed[:, None]
        self.tokens = self._drawn.tolist()

    def go_on(self, model: KeyedModel) -> None:
        """The same for steps whose ends have come since."""
        was = self._drawn.shape[1]
        states, drawn = model.go_on(
            self._states[:, -1], self._drawn[:, -1], self._places + was, len(self.ends_ns) - was
        )
        self._states = np.concatenate([self._states, states], axis=1)
        self._drawn = np.concatenate([self._drawn, drawn], axis=1)
        for tokens, more in zip(self.tokens, drawn.tolist(), strict=True):
            tokens += more

    def computed(self, request: Request, step: int) -> int:
        """Its tokens that are computed once this step is done."""
        return self._by_id[request.id] + step

    def edges(self, first: int, last: int) -> list[tuple[int, list[Request]]]:
        """Steps behind `first` up to `last` in which rows fill a block, with these rows, in order."""
        size, found = self._size, defaultdict(list)
        for row, start in enumerate(self._starts):
            for step in range(first + size - (start + first) % size, last + 1, size):
                found[step].append(self.rows[row])
        return sorted(found.items())

    def sampled(self, model: KeyedModel, row: int, step: int) -> Sampled:
        """What is drawn in this step."""
        if row in self.with_logprobs:
            return model.sampled(int(self._states[row, step - 1]))
        return Sampled(self.tokens[row][step - 1])

    def drawn(self, model: KeyedModel, row: int, first: int, last: int) -> list[Sampled]:
        """What is drawn in the steps behind `first` up to `last`, with log probabilities."""
        return [model.sampled(state) for state in self._states[row, first:last].tolist()]

    def written(self, done: int) -> tuple[Ints, Ints, Ints, Words]:
        """Of steps behind `settled` up to this one, flat, rows one after the other: tokens fed, their places, their
        slots, and what the model writes there."""
        first, size = self.settled, self._size
        places = self._places[:, None] + np.arange(first, done)
        fed = self._drawn[:, max(0, first - 1) : done - 1]
        if first == 0:
            fed = np.concatenate([self._fed, fed], axis=1)
        tables = [
            one.blocks[(start + first) // size : (start + done - 1) // size + 1]
            for one, start in zip(self.rows, self._starts, strict=True)
        ]
        width = max(map(len, tables))
        grid = np.asarray([table + [0] * (width - len(table)) for table in tables])
        at = places // size
        blocks = grid[self._rows, at - at[:, :1]]
        slots = (blocks - at) * size + places
        return fed.ravel(), places.ravel(), slots.ravel(), self._states[:, first:done].ravel()
