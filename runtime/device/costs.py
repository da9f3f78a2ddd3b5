"""What a launch costs, from a table that was measured on a real device (`seatrial calibrate`). No torch.

    cost = prefill(prompt tokens) + decode(decode rows, their mean context) - launch, times jitter

`prefill` is a line through measured points, `decode` a surface through a measured grid (bilinear); past the last point
both go on as they came. The table says which machine it is of, and how far it was off on a run that it did not see.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from runtime.core.work import Work
from runtime.device.decode_costs import FLOOR_NS, STEPS_MAX, Jitter, curve_of
from runtime.device.hash_model import scramble_one

DEFAULT = "cpu-default"
_CURVES_MAX = 500
"""Of 16 KiB each."""


class Costs(Protocol):
    """What a simulated device asks."""

    def cost_ns(self, work: Work) -> int:
        """How long this launch takes."""
        ...

    def copy_ns(self, seq: int, blocks: int) -> int:
        """How long a copy of so many blocks takes; `seq` is its number on the device."""
        ...


@dataclass(frozen=True)
class CostTable:
    """Measured nanoseconds. `made_on`: machine, date, model, threads. `error`: of a recorded run it did not see."""

    name: str
    made_on: dict[str, str]
    launch_ns: int
    prefill: tuple[tuple[int, int], ...]
    """(new tokens of a prompt, ns), ascending."""
    decode_rows: tuple[int, ...]
    decode_context: tuple[int, ...]
    decode_ns: tuple[tuple[int, ...], ...]
    """[rows][context]"""
    jitter: float
    """Half the width of the spread about the cost, as a share of it."""
    error: dict[str, float]
    """Share by which it was off: step_p50, step_p90 (of single launches), total (predicted / measured - 1)."""
    copy_block_ns: int = 20_000
    """To copy one block to the host or back, beside `launch_ns` for the copy; a guess where it was not measured."""

    def __post_init__(self) -> None:
        assert list(self.decode_rows) == sorted(set(self.decode_rows)), "decode_rows must ascend"
        assert list(self.decode_context) == sorted(set(self.decode_context)), "decode_context must ascend"
        assert len(self.decode_ns) == len(self.decode_rows), "one row of decode_ns for each of decode_rows"
        assert all(len(row) == len(self.decode_context) for row in self.decode_ns), "decode_ns is not a grid"
        assert 0 <= self.jitter < 1, f"jitter {self.jitter} is a share below 1"

    def launch_cost_ns(
        self, prompt_tokens: int, decode_rows: int, context: int, curve: Sequence[float] | None = None
    ) -> int:
        """A launch with so many prompt tokens, and decode rows with `context` tokens of KV each, without jitter.
        `curve`: that of `decode_rows`, where it is known."""
        cost = float(self.launch_ns)
        if prompt_tokens:
            tokens, ns = zip(*self.prefill, strict=True)
            cost += _line(tokens, ns, prompt_tokens) - self.launch_ns
        if decode_rows:
            cost += _line(self.decode_context, curve or self.decode_curve(decode_rows), context) - self.launch_ns
        return max(FLOOR_NS, round(cost))

    def decode_curve(self, rows: int) -> list[float]:
        """Of so many decode rows, by context."""
        return [_line(self.decode_rows, column, rows) for column in zip(*self.decode_ns, strict=True)]

    def words(self) -> str:
        """One line for people: which table, and how far off."""
        off = ", ".join(f"{name} {share:+.0%}" for name, share in self.error.items()) or "nobody knows how much"
        return f"cost table {self.name} ({self.made_on.get('cpu', '?')}, {self.made_on.get('date', '?')}); off by {off}"

    def to_json(self) -> dict[str, Any]:
        """As a file has it."""
        return {"costs": 1, **asdict(self)}


class Priced:
    """Costs of one run: a table, with jitter that depends on seed and step alone."""

    def __init__(self, table: CostTable, seed: int) -> None:
        self.table = table
        self._jitter = Jitter(scramble_one(seed & ((1 << 64) - 1)), table.jitter)
        self._measured: dict[int, list[float]] = {}
        """Of the table, by rows."""
        self._curves: dict[tuple[int, int], list[float]] = {}
        """By rows and first context."""

    def cost_ns(self, work: Work) -> int:
        """See Costs."""
        rows, tokens, starts = work.rows, work.tokens, work.row_starts
        if tokens == rows:
            return self.decode_ns(work.step, rows, int(work.context_lens.sum()))
        decoding = starts[1:] - starts[:-1] == 1
        decodes = int(np.count_nonzero(decoding))
        return self.mixed_ns(work.step, tokens - decodes, decodes, int(work.context_lens[decoding].sum()))

    def mixed_ns(self, step: int, prompt_tokens: int, decodes: int, context_sum: int) -> int:
        """A launch with so many tokens of prompts, and decode rows with so many tokens of KV in all once it is done."""
        context, measured_ns = (context_sum // decodes, self._measured_of(decodes)) if decodes else (0, None)
        return self._jittered(step, self.table.launch_cost_ns(prompt_tokens, decodes, context, measured_ns))

    def decode_ns(self, step: int, rows: int, context_sum: int, at_ns: int | None = None) -> int:
        """A launch of decode rows only, with so many tokens of KV in all once it is done. It begins at `at_ns` (None:
        now)."""
        cost = _line(self.table.decode_context, self._measured_of(rows), context_sum // rows)
        return self._jittered(step, max(FLOOR_NS, round(cost)), at_ns)

    def decodes_ns(
        self, step: int, rows: int, context_sum: int, at_ns: int, most: int, until_ns: int | None, late_ns: int
    ) -> list[int]:
        """When decode launches of the same rows end, the first of them at `at_ns`, one behind the other: up to `most`
        (STEPS_MAX at most), or the first that ends after `until_ns`, and none that takes `late_ns` or longer."""
        context = context_sum // rows
        at = context % STEPS_MAX
        costs, factors = self._curve(rows, context - at)[at : at + most], self._jitter.factors(step, most)
        ends: list[int] = []
        for cost, factor in zip(costs, factors, strict=True):
            cost_ns = round(cost * factor)
            if cost_ns < FLOOR_NS:
                cost_ns = FLOOR_NS
            if cost_ns >= late_ns:
                break
            at_ns += cost_ns
            ends.append(at_ns)
            if until_ns is not None and at_ns > until_ns:
                break
        return ends

    def _curve(self, rows: int, first: int) -> list[float]:
        """Costs from context `first` on, a multiple of STEPS_MAX."""
        curve = self._curves.get((rows, first))
        if curve is None:
            if len(self._curves) >= _CURVES_MAX:
                self._curves.clear()
            curve = curve_of(self.table.decode_context, self._measured_of(rows), first)
            self._curves[rows, first] = curve
        return curve

    def _measured_of(self, rows: int) -> list[float]:
        measured_ns = self._measured.get(rows)
        if measured_ns is None:
            measured_ns = self._measured[rows] = self.table.decode_curve(rows)
        return measured_ns

    def copy_ns(self, seq: int, blocks: int) -> int:
        """See Costs."""
        return self._jittered(seq, self.table.launch_ns + blocks * self.table.copy_block_ns)

    def _jittered(self, step: int, cost_ns: int, at_ns: int | None = None) -> int:
        return max(FLOOR_NS, round(cost_ns * self._jitter.factor(step)))


class Slowing(Priced):
    """A device that gets slower, as one that throttles: after each `over_ns` a launch costs `share` more than before.
    Growth is exponential, so that it is `share` over any stretch of that length. A nightly's judges must see it."""

    def __init__(self, table: CostTable, seed: int, now_ns: Callable[[], int], share: float, over_ns: int) -> None:
        super().__init__(table, seed)
        self._now_ns = now_ns
        self._growth = math.log1p(share) / over_ns

    def decodes_ns(
        self, step: int, rows: int, context_sum: int, at_ns: int, most: int, until_ns: int | None, late_ns: int
    ) -> list[int]:
        """See Priced. One by one: what a launch costs depends on when those before it end."""
        ends: list[int] = []
        for at in range(most):
            cost_ns = self.decode_ns(step + at, rows, context_sum + at * rows, at_ns)
            if cost_ns >= late_ns:
                break
            at_ns += cost_ns
            ends.append(at_ns)
            if until_ns is not None and at_ns > until_ns:
                break
        return ends

    def _jittered(self, step: int, cost_ns: int, at_ns: int | None = None) -> int:
        # A launch is priced by the moment at which it begins, leapt over or not.
        at_ns = self._now_ns() if at_ns is None else at_ns
        return super()._jittered(step, round(cost_ns * math.exp(self._growth * at_ns)))


def _line(xs: Sequence[int], ys: Sequence[float], x: float) -> float:
    """Through measured points; before the first and after the last it goes on as the nearest two do."""
    if len(xs) == 1:
        return ys[0]
    at = min(max(1, bisect_right(xs, x)), len(xs) - 1)
    slope = (ys[at] - ys[at - 1]) / (xs[at] - xs[at - 1])
    return max(0.0, ys[at - 1] + slope * (x - xs[at - 1]))


def read_table(name: str = DEFAULT) -> CostTable:
    """A table of ours by name, or a file by its path. Raises ValueError that says what is wrong with it."""
    try:
        text = (
            Path(name).read_text()
            if name.endswith(".json")
            else (files("runtime.device") / "tables" / f"{name}.json").read_text()
        )
        plain = json.loads(text)
        if plain.pop("costs", None) != 1:
            raise ValueError('it lacks "costs": 1')
        lists = {key: tuple(plain[key]) for key in ("decode_rows", "decode_context")}
        grids = {key: tuple(tuple(row) for row in plain[key]) for key in ("prefill", "decode_ns")}
        return CostTable(**{**plain, **lists, **grids})
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise ValueError(f"{name} is not a cost table: {type(error).__name__}: {error}") from error
