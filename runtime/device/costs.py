"""The duration of launches in virtual time, from a table that `seatrial calibrate` measures on a real device. No torch.

    cost = (prefill(prompt tokens) + decode(decode rows, their mean context) - launch) x jitter      nanoseconds

`prefill` interpolates measured points, `decode` a measured grid (bilinear); both extrapolate linearly beyond it. The
table names its machine and its error on a recorded run that it was not fitted to.
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
"""Maximum of cached curves, 16 KiB each."""


class Costs(Protocol):
    """The cost model of a simulated device."""

    def cost_ns(self, work: Work) -> int:
        """Return the duration of a launch in ns."""
        ...

    def copy_ns(self, seq: int, blocks: int) -> int:
        """Return the duration of a copy of `blocks` blocks in ns; `seq` is its ticket number on the device."""
        ...


@dataclass(frozen=True)
class CostTable:
    """Measured durations in ns. `made_on` has machine, date, model and threads."""

    name: str
    made_on: dict[str, str]
    launch_ns: int
    prefill: tuple[tuple[int, int], ...]
    """(new tokens of a prompt, ns), ascending."""
    decode_rows: tuple[int, ...]
    decode_context: tuple[int, ...]
    decode_ns: tuple[tuple[int, ...], ...]
    """[len(decode_rows)][len(decode_context)]."""
    jitter: float
    """Maximum deviation of a launch from its cost, as a share of the cost."""
    error: dict[str, float]
    """Relative errors on a recorded run that the table was not fitted to: step_p50 and step_p90 of single launches, and
    total (predicted / measured - 1)."""
    copy_block_ns: int = 20_000
    """Time to copy one block in one direction, besides `launch_ns` per copy. The default is a guess."""

    def __post_init__(self) -> None:
        assert list(self.decode_rows) == sorted(set(self.decode_rows)), "decode_rows must ascend"
        assert list(self.decode_context) == sorted(set(self.decode_context)), "decode_context must ascend"
        assert len(self.decode_ns) == len(self.decode_rows), "one row of decode_ns for each of decode_rows"
        assert all(len(row) == len(self.decode_context) for row in self.decode_ns), "decode_ns is not a grid"
        assert 0 <= self.jitter < 1, f"jitter {self.jitter} is a share below 1"

    def launch_cost_ns(
        self, prompt_tokens: int, decode_rows: int, context: int, curve: Sequence[float] | None = None
    ) -> int:
        """Return the cost (ns, without jitter) of a launch with `prompt_tokens` prompt tokens and `decode_rows` decode
        rows of `context` tokens of KV each. `curve` is `decode_curve(decode_rows)`, where the caller has it."""
        cost = float(self.launch_ns)
        if prompt_tokens:
            tokens, ns = zip(*self.prefill, strict=True)
            cost += _interpolate(tokens, ns, prompt_tokens) - self.launch_ns
        if decode_rows:
            cost += _interpolate(self.decode_context, curve or self.decode_curve(decode_rows), context) - self.launch_ns
        return max(FLOOR_NS, round(cost))

    def decode_curve(self, rows: int) -> list[float]:
        """Return the cost (ns) of `rows` decode rows at each context of `decode_context`."""
        return [_interpolate(self.decode_rows, column, rows) for column in zip(*self.decode_ns, strict=True)]

    def words(self) -> str:
        """Return one line for people: name, machine, date and error of the table."""
        error = ", ".join(f"{name} {share:+.0%}" for name, share in self.error.items()) or "an unknown error"
        return (
            f"cost table {self.name} ({self.made_on.get('cpu', '?')}, {self.made_on.get('date', '?')}); off by {error}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the content of the table's JSON file."""
        return {"costs": 1, **asdict(self)}


class Priced:
    """Implements Costs for one run: a table, with jitter that depends on seed and step alone."""

    def __init__(self, table: CostTable, seed: int) -> None:
        self.table = table
        self._jitter = Jitter(scramble_one(seed & ((1 << 64) - 1)), table.jitter)
        self._measured: dict[int, list[float]] = {}
        """rows -> the table's decode curve."""
        self._curves: dict[tuple[int, int], list[float]] = {}
        """(rows, first context) -> costs by context."""

    def cost_ns(self, work: Work) -> int:
        """See Costs."""
        rows, tokens, starts = work.rows, work.tokens, work.row_starts
        if tokens == rows:
            return self.decode_ns(work.step, rows, int(work.context_lens.sum()))
        decoding = starts[1:] - starts[:-1] == 1
        decodes = int(np.count_nonzero(decoding))
        return self.mixed_ns(work.step, tokens - decodes, decodes, int(work.context_lens[decoding].sum()))

    def mixed_ns(self, step: int, prompt_tokens: int, decodes: int, context_sum: int) -> int:
        """Return the duration (ns) of a launch with `prompt_tokens` prompt tokens and `decodes` decode rows, whose
        context lengths after the launch add up to `context_sum`."""
        context, measured_ns = (context_sum // decodes, self._measured_of(decodes)) if decodes else (0, None)
        return self._jittered(step, self.table.launch_cost_ns(prompt_tokens, decodes, context, measured_ns))

    def decode_ns(self, step: int, rows: int, context_sum: int, at_ns: int | None = None) -> int:
        """Return the duration (ns) of a launch of `rows` decode rows, whose context lengths after the launch add up to
        `context_sum`. It begins at `at_ns` (None: now)."""
        cost = _interpolate(self.table.decode_context, self._measured_of(rows), context_sum // rows)
        return self._jittered(step, max(FLOOR_NS, round(cost)), at_ns)

    def decodes_ns(
        self, step: int, rows: int, context_sum: int, at_ns: int, most: int, until_ns: int | None, late_ns: int
    ) -> list[int]:
        """Return the end times (ns) of consecutive decode launches of the same rows; the first begins at `at_ns`.

        The list has up to `most` (at most STEPS_MAX) launches. It ends with the first launch that ends after
        `until_ns`, and before the first that takes `late_ns` or longer.
        """
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
        """Return the costs (ns) of contexts from `first` on, which is a multiple of STEPS_MAX."""
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
    """Costs of a device that slows down, as a throttled one does: every `over_ns`, launches get `share` more expensive.
    Growth is exponential, so it is `share` over any interval of that length. Nightly judges must detect it."""

    def __init__(self, table: CostTable, seed: int, now_ns: Callable[[], int], share: float, over_ns: int) -> None:
        super().__init__(table, seed)
        self._now_ns = now_ns
        self._growth = math.log1p(share) / over_ns

    def decodes_ns(
        self, step: int, rows: int, context_sum: int, at_ns: int, most: int, until_ns: int | None, late_ns: int
    ) -> list[int]:
        """See Priced. The cost of a launch depends on the end of the launch before it, so no curve is shared."""
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
        # The cost depends on the time at which the launch begins, with and without fast-forward.
        at_ns = self._now_ns() if at_ns is None else at_ns
        return super()._jittered(step, round(cost_ns * math.exp(self._growth * at_ns)))


def _interpolate(xs: Sequence[int], ys: Sequence[float], x: float) -> float:
    """Interpolate between the points (xs, ys) at `x`, at least 0. Outside of them, extend the nearest segment."""
    if len(xs) == 1:
        return ys[0]
    at = min(max(1, bisect_right(xs, x)), len(xs) - 1)
    slope = (ys[at] - ys[at - 1]) / (xs[at] - xs[at - 1])
    return max(0.0, ys[at - 1] + slope * (x - xs[at - 1]))


def read_table(name: str = DEFAULT) -> CostTable:
    """Read a bundled table by its name, or a file by a path that ends in .json.

    Raises ValueError that names the defect when it is not a cost table.
    """
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
