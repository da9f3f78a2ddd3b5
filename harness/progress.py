"""The progress of a run: one line rewritten in place on a terminal, one line every ten seconds in any other output.

The figures are for information. No judge reads them.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from harness.report import figures
from harness.report.sanitise import one_line, terminal

if TYPE_CHECKING:
    from harness.plan.timeline import PlannedPhase
    from harness.trial.loop import Loop

PLAIN_EVERY_S = 10.0
LIVE_EVERY_S = 0.5
COLUMNS = 80


@dataclass(frozen=True)
class Snapshot:
    """The figures of a run at one moment. None: not known yet, or without a sensor."""

    phase: str
    elapsed_s: float  # of this phase
    planned_s: float | None  # None: the phase ends after a number of replies
    rate: float | None  # good replies per second, over the last half minute
    ok: int
    errors: int
    ttft_p99_s: float | None
    kv_share: float | None
    rss_bytes: float | None
    faults: tuple[str, ...]  # active now

    def line(self, since_start_s: float) -> str:
        """At most COLUMNS wide: time, phase, good replies per second, ok, bad, P99 of TTFT, KV use, memory, faults.

        An unknown figure is left out, not shown as 0.
        """
        planned = "" if self.planned_s is None else f"/{self.planned_s:.0f}"
        minutes, seconds = divmod(int(since_start_s), 60)
        parts = [f"{minutes:02d}:{seconds:02d}", f"{self.phase} {self.elapsed_s:.0f}{planned} s"]
        parts += [f"{self.rate:.3g}/s"] if self.rate is not None else []
        parts += [f"ok {self.ok:,}", f"bad {self.errors:,}"]
        parts += [f"p99 {figures.seconds(self.ttft_p99_s)}"] if self.ttft_p99_s is not None else []
        parts += [f"kv {self.kv_share * 100:.0f} %"] if self.kv_share is not None else []
        parts += [f"{figures.size(self.rss_bytes)}"] if self.rss_bytes is not None else []
        parts += [f"! {', '.join(self.faults)}"] if self.faults else []
        text = "  ".join(terminal(one_line(part)) for part in parts)
        return text if len(text) <= COLUMNS else text[: COLUMNS - 1] + "…"


class Progress:
    """Shows the progress of a run. As a context manager, it restores the terminal however the run ends."""

    def __init__(self, out: TextIO | None = None, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._out = sys.stdout if out is None else out
        self._clock_s = clock_s
        self._start_s = clock_s()
        self._page: _Live | _Plain = _Live(self._out) if self._out.isatty() else _Plain(self._out)
        self._shown_s: float | None = None
        self._phase = ""

    def __enter__(self) -> Self:
        self._page.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._page.close()

    def show(self, loop: "Loop", phase: "PlannedPhase", elapsed_s: float) -> None:
        """Show a line if one is due. The loop calls this several times a second; figures are read only then."""
        name = f"{phase.name} {phase.n}" if phase.n else phase.name
        if self.due(name):
            self.put(_snapshot(loop, phase, name, elapsed_s))

    def due(self, phase: str) -> bool:
        """True at the start of each phase, and then every `every_s` seconds."""
        since_s = None if self._shown_s is None else self._clock_s() - self._shown_s
        return phase != self._phase or since_s is None or since_s >= self._page.every_s

    def put(self, snapshot: Snapshot) -> None:
        self._shown_s, self._phase = self._clock_s(), snapshot.phase
        self._page.put(snapshot.line(self._shown_s - self._start_s))

    def say(self, text: str) -> None:
        """Print a permanent line above the progress line."""
        self._page.say(terminal(text))


def _snapshot(loop: "Loop", phase: "PlannedPhase", name: str, elapsed_s: float) -> Snapshot:
    stats, live = loop.stats, loop.stats.figures()
    return Snapshot(
        phase=name,
        elapsed_s=elapsed_s,
        planned_s=None if phase.completed is not None else phase.planned_s,
        rate=live.get("throughput.requests"),
        ok=stats.ok,
        errors=sum(number for outcome, number in stats.counts.items() if outcome not in ("ok", "cancelled")),
        ttft_p99_s=live.get("ttft.p99"),
        kv_share=stats.sensors.get("kv.usage"),
        rss_bytes=stats.sensors.get("server.rss_anon"),
        faults=tuple(loop.faults.active),
    )


class _Plain:
    """Output to a log file: each line is flushed, so that `tail -f` and CI pages show it at once."""

    every_s = PLAIN_EVERY_S

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def open(self) -> None:
        pass

    def put(self, line: str) -> None:
        print(line, file=self._out, flush=True)

    say = put

    def close(self) -> None:
        pass


class _Live:
    """Output to a terminal: one line at the bottom, rewritten in place."""

    every_s = LIVE_EVERY_S

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=out, highlight=False, markup=False, emoji=False)
        # No refresh thread: it would compete with the load for a core. `Progress.due` decides when to draw.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def open(self) -> None:
        self._live.start()

    def put(self, line: str) -> None:
        from rich.text import Text

        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()
