"""Rounds of the sampler with a clock, processes and pages that the test decides."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.telemetry.clocks import ClockReading, clock_steps, read_clocks
from harness.telemetry.metrics import ScrapeFailed
from harness.telemetry.open_files import OpenFiles
from harness.telemetry.ports import CHILDREN_MAX, SamplerPorts
from harness.telemetry.proc import ProcessReading
from harness.telemetry.sampler import Sampler

SECOND = 1_000_000_000
NINE = OpenFiles(9, 2)
PAGE = "vllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\n"


@dataclass
class Notes:
    """A sink that keeps what it was told, by name."""

    declared: dict[str, str | None] = field(default_factory=dict)  # name -> absent
    names: list[str] = field(default_factory=list)
    samples: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    events: list[tuple[str, str, float | None]] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)

    def series(
        self, name: str, unit: str, kind: str, source: str, period_ns: int | None, absent: str | None = None
    ) -> int:
        if name not in self.declared:
            self.declared[name] = absent
            self.names.append(name)
        return self.names.index(name)

    def absent(self, name: str, reason: str | None) -> None:
        self.declared[name] = reason

    def sample(self, series: int, t_ns: int, value: float) -> None:
        self.samples.setdefault(self.names[series], []).append((t_ns, value))

    def event(self, t_ns: int, proc: str, kind: str, value: float | None = None, detail: str | None = None) -> None:
        self.events.append((proc, kind, value))

    def clock(self, t_ns: int, real_ns: int, boot_ns: int, proc: str, offset_ns: int, err_ns: int) -> None:
        self.clocks.append(t_ns)


class World:
    """Everything a sampler looks at. `sleep` moves the clock, and oversleeps by `oversleep_s`."""

    def __init__(self) -> None:
        self.now_ns = 100 * SECOND
        self.oversleep_s = 0.0
        self.looks: dict[int, ProcessReading | None] = {}
        self.children: list[ProcessReading] = []
        self.page: str | ScrapeFailed = PAGE
        self.real_offset_ns = 10**18
        self.boot_offset_ns = 0

    def clock_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += int((seconds + self.oversleep_s) * 1e9)

    def fetch(self, url: str, timeout_s: float) -> str:
        if isinstance(self.page, ScrapeFailed):
            raise self.page
        return self.page

    def clocks(self) -> ClockReading:
        return ClockReading(self.now_ns, self.now_ns + self.real_offset_ns, self.now_ns + self.boot_offset_ns, 100)

    def ports(self, root: Path) -> SamplerPorts:
        return SamplerPorts(self.clock_ns, self.sleep, self.tree, self.fetch, self.clocks, root)

    def tree(self, pid: int) -> tuple[ProcessReading, ...]:
        main = self.looks.get(pid)
        return () if main is None else (main, *self.children)


def process(
    started: int = 1,
    cpu_ns: int = 0,
    files: OpenFiles | None = NINE,
    pid: int = 5,
    name: str = "server",
    rss_anon: int | None = 4096,
) -> ProcessReading:
    return ProcessReading(pid, name, started, rss_anon, 8192, 0, 0, 3, files, cpu_ns)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def sampler(world: World, notes: Notes, tmp_path: Path) -> Sampler:
    return Sampler(notes, tmp_path, "http://x/metrics", ports=world.ports(tmp_path))


def test_cpu_is_cores_used_between_two_looks_and_unknown_at_the_first(
    sampler: Sampler, world: World, notes: Notes
) -> None:
    world.looks[5] = process(cpu_ns=7 * SECOND)
    sampler.watch("server", 5)
    sampler.tick()
    assert "server.cpu" not in notes.samples
    world.now_ns += 2 * SECOND
    world.looks[5] = process(cpu_ns=10 * SECOND)
    sampler.tick()
    assert notes.samples["server.cpu"] == [(world.now_ns, 1.5)]
    assert notes.samples["server.rss_anon"][-1][1] == 4096.0


def test_a_process_that_ends_is_told_once_and_no_longer_sampled(sampler: Sampler, world: World, notes: Notes) -> None:
    world.looks[5] = process()
    sampler.watch("server", 5)
    sampler.tick()
    world.looks[5] = None
    sampler.tick()
    sampler.tick()
    assert notes.events.count(("server", "gone", 5.0)) == 1
    assert len(notes.samples["server.threads"]) == 1


def test_a_reused_pid_is_not_taken_for_the_old_process(sampler: Sampler, world: World, notes: Notes) -> None:
    world.looks[5] = process(started=1)
    sampler.watch("server", 5)
    sampler.tick()
    world.looks[5] = process(started=2)
    sampler.tick()
    assert ("server", "gone", 5.0) in notes.events


def test_a_restarted_server_goes_on_under_its_name(sampler: Sampler, world: World, notes: Notes) -> None:
    world.looks = {5: process(), 6: process(started=9)}
    sampler.watch("server", 5)
    sampler.tick()
    sampler.watch("server", 6)
    sampler.tick()
    assert len(notes.samples["server.threads"]) == 2
    assert not [event for event in notes.events if event[1] == "gone"]


@pytest.mark.parametrize("series", ["fds", "sockets", "file_cache"])
def test_open_files_that_we_may_not_read_are_absent_with_a_reason(
    sampler: Sampler, world: World, notes: Notes, series: str
) -> None:
    world.looks[5] = process(files=None)
    sampler.watch("server", 5)
    sampler.tick()
    assert "another user" in (notes.declared[f"server.{series}"] or "")
    assert f"server.{series}" not in notes.samples


def test_a_host_without_a_sensor_says_so_once_and_samples_the_rest(
    sampler: Sampler, world: World, notes: Notes
) -> None:
    sampler.tick()
    sampler.tick()
    assert "proc/stat" in (notes.declared["host.steal"] or "")
    assert "host.steal" not in notes.samples
    assert len(notes.samples["host.disk_free"]) == 2


def test_a_metric_that_the_page_lacks_is_absent_until_it_appears(sampler: Sampler, world: World, notes: Notes) -> None:
    sampler.tick()
    assert "not on the target's metrics page" in (notes.declared["server.preemptions"] or "")
    world.page = PAGE + "vllm:num_preemptions_total 1\n"
    sampler.tick()
    assert notes.declared["server.preemptions"] is None
    assert notes.samples["server.preemptions"][0][1] == 1.0


def test_a_hanging_metrics_page_is_one_event_and_its_return_another(
    sampler: Sampler, world: World, notes: Notes
) -> None:
    sampler.tick()
    world.page = ScrapeFailed("TimeoutError")
    for _ in range(3):
        sampler.tick()
    world.page = PAGE
    sampler.tick()
    assert [kind for _, kind, _ in notes.events] == ["scrape_failed", "scrape_back"]
    assert len(notes.samples["server.running"]) == 2


def test_a_target_without_metrics_has_every_name_absent(world: World, notes: Notes, tmp_path: Path) -> None:
    Sampler(notes, tmp_path, None, ports=world.ports(tmp_path)).tick()
    assert notes.declared["kv.usage"] == "the target has no metrics URL"


def test_a_tick_that_is_four_periods_late_is_a_gap(sampler: Sampler, world: World, notes: Notes) -> None:
    sampler.tick()
    world.now_ns += 3 * SECOND
    sampler.tick()
    assert not notes.events
    world.now_ns += 4 * SECOND
    sampler.tick()
    assert notes.events == [("harness", "sampler_gap", 4.0)]


def test_the_worst_oversleep_between_two_ticks_is_the_hiccup(sampler: Sampler, world: World, notes: Notes) -> None:
    sampler.tick()
    world.oversleep_s = 0.025
    sampler.sleep_until(world.now_ns + 20_000_000)
    world.oversleep_s = 0.001
    sampler.sleep_until(world.now_ns + SECOND)
    sampler.tick()
    assert notes.samples["host.hiccup_ms"] == [(world.now_ns, pytest.approx(25.0))]


def test_clocks_are_read_each_ten_seconds_and_a_step_is_an_event(sampler: Sampler, world: World, notes: Notes) -> None:
    for _ in range(21):
        sampler.tick()
        world.now_ns += SECOND
    assert len(notes.clocks) == 3
    world.real_offset_ns -= 3 * SECOND
    world.now_ns += 10 * SECOND
    sampler.tick()
    assert ("harness", "clock_step", -3.0) in notes.events


def test_a_suspended_machine_shows_in_the_boot_clock() -> None:
    before = ClockReading(0, 0, 0, 10)
    assert [(s.clock, s.by_ns) for s in clock_steps(before, ClockReading(SECOND, SECOND, 61 * SECOND, 10))] == [
        ("boot", 60 * SECOND)
    ]


def test_slewing_of_500_ppm_is_no_step() -> None:
    before = ClockReading(0, 0, 0, 10)
    assert clock_steps(before, ClockReading(100 * SECOND, 100 * SECOND + 50_000_000, 100 * SECOND, 10)) == []


def test_the_real_clocks_can_be_read_within_a_millisecond() -> None:
    seen = read_clocks()
    assert abs(seen.mono_ns - time.monotonic_ns()) < SECOND
    assert seen.err_ns < 50_000_000


def test_a_process_is_sampled_with_its_children_summed_and_by_name(
    sampler: Sampler, world: World, notes: Notes
) -> None:
    world.looks[5] = process(cpu_ns=SECOND)
    world.children = [process(pid=6, name="Engine Core", cpu_ns=0), process(pid=7, name="worker"),
                      process(pid=8, name="worker", rss_anon=100)]  # fmt: skip
    sampler.watch("server", 5)
    sampler.tick()
    assert notes.samples["server.rss_anon"][-1][1] == 3 * 4096 + 100
    assert notes.samples["server.threads"][-1][1] == 12
    assert notes.samples["server.child.worker#2.rss_anon"][-1][1] == 100
    world.now_ns += SECOND
    world.children = [process(pid=6, name="Engine Core", cpu_ns=SECOND), process(pid=8, name="worker", rss_anon=200)]
    sampler.tick()
    assert notes.samples["server.cpu"] == [(world.now_ns, 1.0)]
    assert notes.samples["server.child.Engine_Core.fds"][-1][1] == 9
    assert notes.samples["server.child.worker#2.rss_anon"][-1][1] == 200, "it keeps its name when another one ends"
    assert len(notes.samples["server.child.worker.rss_anon"]) == 1


def test_children_without_end_have_series_for_the_first_names_only(
    sampler: Sampler, world: World, notes: Notes
) -> None:
    world.looks[5] = process()
    world.children = [process(pid=pid, name=f"job{pid}") for pid in range(100, 200)]
    sampler.watch("server", 5)
    sampler.tick()
    assert sum(name.startswith("server.child.") for name in notes.samples) == 4 * CHILDREN_MAX
    assert notes.samples["server.rss_anon"][-1][1] == 101 * 4096


def test_memory_that_the_kernel_does_not_tell_is_absent_with_its_reason_and_the_process_lives(
    sampler: Sampler, world: World, notes: Notes
) -> None:
    world.looks[5] = process(rss_anon=None)
    sampler.watch("server", 5)
    sampler.tick()
    sampler.tick()
    assert "RssAnon" in (notes.declared["server.rss_anon"] or "")
    assert len(notes.samples["server.fds"]) == 2
    assert notes.events == []


def test_a_crash_of_the_thread_is_told_and_raised_at_stop(world: World, notes: Notes, tmp_path: Path) -> None:
    def broken(pid: int) -> tuple[ProcessReading, ...]:
        raise RuntimeError("planted")

    ports = SamplerPorts(world.clock_ns, world.sleep, broken, world.fetch, world.clocks, tmp_path)
    sampler = Sampler(notes, tmp_path, None, ports=ports)
    sampler.watch("server", 5)
    sampler.start()
    with pytest.raises(RuntimeError, match="planted"):
        sampler.stop()
    assert ("harness", "sampler_crash", None) in notes.events
