import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import doctor
from harness.cli.doctor import Health, HealthCheck, show


class Clocks:
    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 50.0, step_s

    def wall(self) -> float:
        return self.now_s + 1e9 + (self.step_s if self.now_s > 50.0 else 0.0)

    def steady(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(("step_s", "health"), [(0.0, Health.OK), (-2.0, Health.NOTE), (0.5, Health.NOTE)])
def test_a_stepping_clock_is_noted(step_s: float, health: Health) -> None:
    clocks = Clocks(step_s)
    assert doctor.clock(clocks.wall, clocks.steady, clocks.sleep).health is health


def test_one_bad_finding_is_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([HealthCheck("a", Health.OK, "x"), HealthCheck("b", Health.NOTE, "y")]) == 0
    assert show([HealthCheck("a", Health.OK, "x"), HealthCheck("b", Health.BAD, "y")]) == 3
    assert "1 check failed" in capsys.readouterr().out


def test_a_package_that_cannot_be_imported_is_bad_and_says_why() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import no_such_package_of_ours"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    found = doctor._import_check("no_such_package_of_ours", child, "version")
    assert found.health is Health.BAD
    assert "is not installed" in found.text
    assert "ModuleNotFoundError" in found.text


def test_cgroup_limits_of_both_versions_are_read(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    (group / "cpu").mkdir(parents=True)
    (group / "memory.max").write_text("8589934592\n", encoding="ascii")
    (group / "cpu/cpu.cfs_quota_us").write_text("-1\n", encoding="ascii")
    assert doctor._cgroup(tmp_path).text == "memory 8 GiB"
    assert doctor._cgroup(tmp_path / "none").text == "no limit seen"


def test_a_folder_for_runs_that_is_not_there_yet_is_measured_where_it_will_be(tmp_path: Path) -> None:
    assert "free for" in doctor._disk(tmp_path / "a" / "b").text
