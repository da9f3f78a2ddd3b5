import io
from dataclasses import replace
from typing import Any

from harness.progress import COLUMNS, Progress, Snapshot

NOW = Snapshot("trial", 12.0, 120.0, 18.4, 210, 0, 0.041, 0.34, 222_298_112.0, ("oom",))


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(clock: Clock, out: io.StringIO, progress: Progress, seconds: float, phase: str = "trial") -> None:
    """Ask for a line ten times a second, as a drive does."""
    for _ in range(round(seconds * 10)):
        clock.now_s = round(clock.now_s + 0.1, 3)
        if progress.due(phase):
            progress.put(replace(NOW, phase=phase))


def page(out: io.StringIO, clock: Clock) -> Progress:
    return Progress(out, clock)


def test_a_line_says_everything_that_is_known() -> None:
    assert NOW.line(72.4) == ("01:12  trial 12/120 s  18.4/s  ok 210  bad 0  p99 41 ms  kv 34 %  212 MiB  ! oom")


def test_what_is_unknown_is_left_out_and_never_zero() -> None:
    bare = Snapshot("warmup", 3.0, None, None, 0, 0, None, None, None, ())
    assert bare.line(3.0) == "00:03  warmup 3 s  ok 0  bad 0"


def test_a_line_is_never_wider_than_its_columns() -> None:
    many = replace(NOW, faults=tuple(f"fault-{n}" for n in range(40)))
    assert len(many.line(0.0)) == COLUMNS


def test_a_log_gets_a_line_at_each_phase_and_every_ten_seconds() -> None:
    clock, out = Clock(), io.StringIO()
    progress = page(out, clock)
    with progress:
        told(clock, out, progress, 25.0, "warmup")
        told(clock, out, progress, 9.0, "trial")
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["00:00", "00:10", "00:20", "00:25"]
    assert lines[-1].split()[1] == "trial"
    assert "\x1b" not in out.getvalue()


def test_a_terminal_gets_two_lines_a_second_in_place() -> None:
    clock, out = Clock(), Screen()
    progress = page(out, clock)
    with progress:
        told(clock, out, progress, 3.0)
        progress.say("the run ends early")
    assert 5 <= out.getvalue().count("ok 210") <= 9
    assert "the run ends early\n" in out.getvalue()


def test_the_cursor_comes_back_when_the_run_dies(monkeypatch: Any) -> None:
    monkeypatch.setenv("TERM", "xterm")
    clock, out = Clock(), Screen()
    try:
        with page(out, clock) as progress:
            progress.put(NOW)
            raise RuntimeError("died")
    except RuntimeError:
        pass
    shown = out.getvalue()
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1


def test_a_hostile_name_moves_no_cursor() -> None:
    assert "\x1b" not in replace(NOW, faults=("\x1b[2J",)).line(0.0)
