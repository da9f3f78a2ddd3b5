"""Free memory is the least that kernel and cgroup say, unless a fault lies; and a lie is felt as pressure."""

from pathlib import Path

import pytest

from faults import Catalogue, Faults, FaultSpec, parse_do
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.device.mem_info import POINTS, MemInfo
from tests.runtime.fakes import SetClock

MIB = 1 << 20


def info(folder: Path, available_kib: int | None, most: str | None, current: int = 0) -> tuple[MemInfo, Faults]:
    if available_kib is not None:
        (folder / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {available_kib} kB\n")
    if most is not None:
        (folder / "memory.max").write_text(most + "\n")
        (folder / "memory.current").write_text(f"{current + 5000}\n")
        (folder / "memory.stat").write_text("anon 1\ninactive_file 5000\n")
    known = Catalogue(POINTS)
    clock = SetClock()
    faults = Faults(known, clock.now_ns, lambda fire: None, lambda state: None)
    return MemInfo(Env(clock, 0, faults, Ledger()), folder / "meminfo", folder), faults


@pytest.mark.parametrize(
    ("available_kib", "most", "current", "free"),
    [
        (4096, None, 0, 4 * MIB),
        (4096, "max", 7, 4 * MIB),
        (4096, str(3 * MIB), MIB, 2 * MIB),
        (1024, str(3 * MIB), 0, MIB),
        (None, str(3 * MIB), MIB, 2 * MIB),
        (None, None, 0, None),
    ],
)
def test_the_least_that_is_known_counts(
    tmp_path: Path, available_kib: int | None, most: str | None, current: int, free: int | None
):
    asked, _ = info(tmp_path, available_kib, most, current)
    assert asked.free_bytes() == free


def test_a_lie_is_told_while_it_is_armed_and_heals(tmp_path: Path):
    asked, faults = info(tmp_path, 4096, None)
    faults.arm([FaultSpec(id="f", n=0, do=parse_do("device.mem_info: lie 0.5"))])
    assert asked.free_bytes() == MIB // 2
    assert asked.free_bytes() == 4 * MIB, "once, by default"


def test_this_machine_says_something():
    asked = MemInfo(Env(SetClock(), 0, Faults(Catalogue(), lambda: 0, lambda f: None, lambda s: None), Ledger()))
    free = asked.free_bytes()
    assert free is None or free > 0
