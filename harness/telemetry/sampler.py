"""Samples processes, host and server once a second on one thread, and records the samples.

    tick ---- 10 ms sleeps, each oversleep is a "hiccup" ---- tick ---- ...

An absent sensor is recorded with its reason (`series.absent`), a late tick as event `sampler_gap`, a clock step as
event `clock_step`. A missing sample is never recorded as zero.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from harness.telemetry import host
from harness.telemetry.clocks import ClockReading, clock_steps
from harness.telemetry.metrics import SERIES_NAMES, ScrapeFailed, read_metrics, wanted_of
from harness.telemetry.ports import CounterRate, SamplerPorts, Sink, WatchedProcess
from harness.telemetry.proc import file_cache

PERIOD_NS = 1_000_000_000
CLOCK_EVERY_NS = 10_000_000_000
SLEEP_S = 0.010
GAP_PERIODS = 3  # periods; a tick later than this is recorded as a gap


_CHILD_SERIES = ("rss_anon", "fds", "sockets", "threads")
_NOT_OURS = "the open files of another user's process can't be read"
_UNTOLD = {"fds": _NOT_OURS, "sockets": _NOT_OURS, "file_cache": _NOT_OURS}
"""Why a process does not show a series."""
_NO_KINDS = "this kernel does not tell memory by kind (no RssAnon in /proc/PID/status)"
_PROCESS_SERIES: tuple[tuple[str, str, str], ...] = (
    ("rss_anon", "bytes", "gauge"),
    ("rss_file", "bytes", "gauge"),
    ("rss_shmem", "bytes", "gauge"),
    ("swap", "bytes", "gauge"),
    ("fds", "count", "gauge"),
    ("sockets", "count", "gauge"),
    ("file_cache", "bytes", "gauge"),
    ("threads", "count", "gauge"),
    ("cpu", "cores", "gauge"),
)


class Sampler:
    """The sampler. `tick` takes one round of samples; `start` and `stop` run it on its own thread."""

    def __init__(
        self,
        sink: Sink,
        run_directory: Path,
        metrics_url: str | None = None,
        metrics_preset: str = "vllm",
        period_ns: int = PERIOD_NS,
        ports: SamplerPorts | None = None,
    ) -> None:
        self._sink = sink
        self._ports = ports or SamplerPorts()
        self._period_ns = period_ns
        self._directory = run_directory
        self._url, self._preset = metrics_url, metrics_preset
        self._processes: dict[str, WatchedProcess] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_ns: int | None = None
        self._clock: ClockReading | None = None
        self._scrape_trouble: str | None = None  # the reason why the last scrape failed
        self._scraped = False  # True when a page was read, so its absent series are known
        self._missing: set[str] = set()  # series that were declared absent
        self._steal, self._pressure = CounterRate(), CounterRate()
        self._hiccup_ns = 0
        self._crash: BaseException | None = None
        if metrics_url is None:
            for name in SERIES_NAMES:
                self._declare_absent(name, "", "gauge", "scrape", "the target has no metrics URL")

    # -- watched processes ------------------------------------------------------------------------------------------

    def watch(self, name: str, pid: int) -> None:
        """Sample this process and its descendants from now on. A new pid replaces the old one.

        Series `<name>.rss_anon` etc. hold the sum of all, `<name>.child.<its name>.rss_anon` etc. one child.
        """
        with self._lock:
            self._processes[name] = WatchedProcess(pid)

    def unwatch(self, name: str) -> None:
        """Stop sampling a process before it ends on purpose; otherwise its end is recorded as an event."""
        with self._lock:
            self._processes.pop(name, None)

    def absent(self, name: str, reason: str) -> None:
        """Declare all series of a process absent, such as a foreign target without pid."""
        for series, unit, kind in _PROCESS_SERIES:
            self._declare_absent(f"{name}.{series}", unit, kind, "proc", reason)

    # -- one round -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take one sample of everything. A failing sensor does not affect others."""
        now_ns = self._ports.clock_ns()
        self._record_gap(now_ns)
        with self._lock:
            watched = list(self._processes.items())
        for name, process in watched:
            self._sample_process(name, process, now_ns)
        self._sample_host(now_ns)
        if self._clock is None or now_ns - self._clock.mono_ns >= CLOCK_EVERY_NS:
            self._sample_clocks()
        if self._url is not None:
            self._scrape(self._url, now_ns)
        self._last_ns = now_ns

    def _record_gap(self, now_ns: int) -> None:
        if self._last_ns is not None and now_ns - self._last_ns > GAP_PERIODS * self._period_ns:
            missed_s = (now_ns - self._last_ns) / 1e9
            self._sink.event(now_ns, "harness", "sampler_gap", missed_s, f"no samples for {missed_s:.1f} s")

    def _sample_process(self, name: str, process: WatchedProcess, now_ns: int) -> None:
        tree = self._ports.read_tree(process.pid)
        if not tree or (process.started is not None and tree[0].started != process.started):
            with self._lock:
                gone = self._processes.get(name) is process
                if gone:
                    del self._processes[name]
            if gone:  # otherwise it was replaced meanwhile
                self._sink.event(now_ns, name, "gone", float(process.pid), f"process {process.pid} is no more")
            return
        process.started = tree[0].started
        of_tree = {"cpu": process.cores(now_ns, tree), "file_cache": file_cache(tree)}
        for series, unit, kind in _PROCESS_SERIES:
            value = of_tree[series] if series in of_tree else _sum([getattr(each, series) for each in tree])
            if value is not None:
                self._put(f"{name}.{series}", unit, kind, "proc", now_ns, value)
            elif series != "cpu" and f"{name}.{series}" not in self._missing:
                reason = _UNTOLD.get(series, _NO_KINDS)
                self._declare_absent(f"{name}.{series}", unit, kind, "proc", reason)
        for child, seen in zip(process.name_children(tree[1:]), tree[1:], strict=True):
            for series, unit, kind in _PROCESS_SERIES:
                value = getattr(seen, series) if child and series in _CHILD_SERIES else None
                if value is not None:
                    self._put(f"{name}.child.{child}.{series}", unit, kind, "proc", now_ns, float(value))

    def _sample_host(self, now_ns: int) -> None:
        root = self._ports.root
        sensors: list[tuple[str, str, str, Callable[[], float | None]]] = [
            ("host.steal", "share", "gauge", lambda: self._steal.step(now_ns, host.steal_ns(root))),
            ("host.cpu_pressure", "share", "gauge", lambda: self._pressure.step(now_ns, host.cpu_pressure_ns(root))),
            ("host.throttled_s", "s", "counter", lambda: host.throttled_ns(root) / 1e9),
            ("host.disk_free", "bytes", "gauge", lambda: float(host.disk_free_bytes(self._directory))),
            ("host.hiccup_ms", "ms", "gauge", partial(self._worst_hiccup_ms, now_ns)),
        ]
        for name, unit, kind, read in sensors:
            if name in self._missing:
                continue
            try:
                value = read()
            except host.SensorAbsent as reason:
                self._declare_absent(name, unit, kind, "host", str(reason))
                continue
            if value is not None:
                self._put(name, unit, kind, "host", now_ns, value)

    def _worst_hiccup_ms(self, now_ns: int) -> float | None:
        worst_ns, self._hiccup_ns = self._hiccup_ns, 0
        return worst_ns / 1e6 if self._last_ns is not None else None

    def _sample_clocks(self) -> None:
        earlier, later = self._clock, self._ports.clocks()
        self._clock = later
        self._sink.clock(later.mono_ns, later.real_ns, later.boot_ns, "harness", 0, later.err_ns)
        for step in clock_steps(earlier, later) if earlier is not None else []:
            detail = f"{step.clock} moved by {step.by_ns / 1e9:+.3f} s against the monotonic clock"
            self._sink.event(later.mono_ns, "harness", "clock_step", step.by_ns / 1e9, detail)

    def _scrape(self, url: str, now_ns: int) -> None:
        try:
            found = read_metrics(self._ports.fetch(url, self._period_ns / 2e9), self._preset)
        except ScrapeFailed as error:
            self._record_scrape_state(now_ns, str(error))
            return
        self._record_scrape_state(now_ns, None)
        for name, value in found.items():
            want = wanted_of(name, self._preset)
            self._put(name, want.unit, want.kind, "scrape", now_ns, value)
        for name in SERIES_NAMES:
            if name not in found and not self._scraped:
                self._declare_absent(
                    name, "", "gauge", "scrape", f"not on the target's metrics page (read as {self._preset})"
                )
        self._scraped = True

    def _record_scrape_state(self, now_ns: int, trouble: str | None) -> None:
        """Record a change of the scrape state as an event. Repeated failures are recorded once."""
        if trouble != self._scrape_trouble:
            kind = "scrape_failed" if trouble else "scrape_back"
            self._sink.event(now_ns, "harness", kind, None, trouble or self._scrape_trouble)
        self._scrape_trouble = trouble

    def _put(self, name: str, unit: str, kind: str, source: str, t_ns: int, value: float) -> None:
        if name in self._missing:  # some servers publish a metric only after its first event
            self._missing.discard(name)
            self._sink.absent(name, None)
        self._sink.sample(self._sink.series(name, unit, kind, source, self._period_ns), t_ns, value)

    def _declare_absent(self, name: str, unit: str, kind: str, source: str, reason: str) -> None:
        self._missing.add(name)
        self._sink.series(name, unit, kind, source, self._period_ns, absent=reason)

    # -- the thread ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        assert self._thread is None, "a sampler is started once"
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current round and wait for it. An exception of the thread is raised here."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10.0)
            self._thread = None
        if self._crash is not None:
            raise self._crash

    def _run(self) -> None:
        next_ns = self._ports.clock_ns()
        try:
            while not self._stop.is_set():
                self.tick()
                # Ticks lie on a grid: a slow round does not shift later ones, and a missed tick is not repeated.
                next_ns = max(next_ns + self._period_ns, self._ports.clock_ns())
                self.sleep_until(next_ns)
        # The judges must know that sampling ended, so the error is recorded, and raised in `stop`.
        except BaseException as error:
            self._crash = error
            self._sink.event(
                self._ports.clock_ns(), "harness", "sampler_crash", None, f"{type(error).__name__}: {error}"
            )

    def sleep_until(self, until_ns: int) -> None:
        """Sleep in short steps and keep the longest oversleep, which is the delay that this host causes."""
        clock_ns = self._ports.clock_ns
        before_ns = clock_ns()
        while before_ns < until_ns and not self._stop.is_set():
            self._ports.sleep(SLEEP_S)
            after_ns = clock_ns()
            self._hiccup_ns = max(self._hiccup_ns, after_ns - before_ns - int(SLEEP_S * 1e9))
            before_ns = after_ns


def _sum(values: Sequence[int | None]) -> float | None:
    """The sum; None when one of them is not known."""
    known = [each for each in values if each is not None]
    return float(sum(known)) if len(known) == len(values) else None
