"""/proc of a process and of the host, read from files that the test wrote."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.telemetry import host
from harness.telemetry.proc import read_process, read_tree

STATUS = """Name:\tserver
RssAnon:\t    2048 kB
RssFile:\t     100 kB
RssShmem:\t       4 kB
VmSwap:\t      64 kB
Threads:\t7
"""


def write_process(root: Path, pid: int, name: str = "server", state: str = "S", status: str = STATUS) -> None:
    folder = root / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "fd" / "0").touch()
    (folder / "fd" / "1").touch()
    (folder / "status").write_text(status)
    numbers = ["0"] * 50
    numbers[0], numbers[11], numbers[12], numbers[17], numbers[19] = state, "150", "50", "7", "4242"
    (folder / "stat").write_text(f"{pid} ({name}) " + " ".join(numbers))


def test_memory_is_split_by_kind_and_counted_in_bytes(tmp_path: Path) -> None:
    write_process(tmp_path, 10)
    seen = read_process(10, tmp_path, ticks_per_s=100)
    assert seen is not None
    assert (seen.rss_anon, seen.rss_file, seen.rss_shmem, seen.swap) == (
        2048 * 1024, 100 * 1024, 4 * 1024, 64 * 1024)  # fmt: skip
    assert (seen.threads, seen.fds, seen.started) == (7, 2, 4242)
    assert seen.cpu_ns == 2_000_000_000


def test_a_name_with_spaces_and_parentheses_does_not_shift_the_fields(tmp_path: Path) -> None:
    write_process(tmp_path, 10, name="tmux: server) S (x")
    seen = read_process(10, tmp_path, ticks_per_s=100)
    assert seen is not None
    assert (seen.threads, seen.started) == (7, 4242)


def test_a_process_that_is_gone_is_none_and_so_is_a_zombie(tmp_path: Path) -> None:
    write_process(tmp_path, 11, state="Z", status="Name:\tserver\n")
    assert read_process(10, tmp_path) is None
    assert read_process(11, tmp_path) is None


def test_our_own_process_has_memory_threads_and_descriptors() -> None:
    seen = read_process(os.getpid())
    assert seen is not None
    assert seen.rss_anon or 0 > 1 << 20
    assert seen.threads >= 1
    assert seen.fds is not None
    assert seen.fds >= 3


def test_steal_is_the_eighth_number_of_the_cpu_line(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu  9 0 3 100 5 0 7 250 0 0\ncpu0 1 2 3\n")
    assert host.steal_ns(tmp_path, ticks_per_s=100) == 2_500_000_000


def test_pressure_is_the_total_of_the_line_some(tmp_path: Path) -> None:
    (tmp_path / "proc/pressure").mkdir(parents=True)
    (tmp_path / "proc/pressure/cpu").write_text(
        "some avg10=0.00 avg60=0.00 avg300=0.18 total=7375\nfull avg10=0 total=1\n"
    )
    assert host.cpu_pressure_ns(tmp_path) == 7_375_000


def test_a_kernel_without_pressure_information_is_absent_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(host.SensorAbsent, match="proc/pressure/cpu: No such file"):
        host.cpu_pressure_ns(tmp_path)


@pytest.mark.parametrize(
    ("cgroup", "path", "text"),
    [
        ("0::/job", "sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nthrottled_usec 1500\n"),
        ("4:cpu,cpuacct:/job", "sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 3\nthrottled_time 1500000\n"),
    ],
)
def test_throttling_is_found_under_both_cgroup_versions(tmp_path: Path, cgroup: str, path: str, text: str) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup + "\n")
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text)
    assert host.throttled_ns(tmp_path) == 1_500_000


def test_no_throttling_counter_is_absent_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    with pytest.raises(host.SensorAbsent, match="no CPU quota is set"):
        host.throttled_ns(tmp_path)


def test_a_kernel_that_tells_no_memory_by_kind_still_tells_descriptors_and_threads(tmp_path: Path) -> None:
    status = "Name:\tserver\nVmSize:\t9000 kB\nVmRSS:\t800 kB\nVmData:\t10 kB\nThreads:\t7\n"
    write_process(tmp_path, 10, status=status)
    seen = read_process(10, tmp_path)
    assert seen is not None
    assert (seen.rss_anon, seen.swap) == (None, None)
    assert (seen.threads, seen.fds) == (7, 2)


def test_a_tree_is_the_process_and_the_children_of_all_its_threads(tmp_path: Path) -> None:
    for pid, name in ((10, "server"), (11, "engine"), (12, "worker"), (13, "helper")):
        write_process(tmp_path, pid, name)
    for thread, children in ((10, "11 12 "), (99, "99999 ")):
        task = tmp_path / "10" / "task" / str(thread)
        task.mkdir(parents=True)
        (task / "children").write_text(children)
    (tmp_path / "11" / "task" / "11").mkdir(parents=True)
    (tmp_path / "11" / "task" / "11" / "children").write_text("13 ")
    assert [(each.pid, each.name) for each in read_tree(10, tmp_path)] == [
        (10, "server"), (11, "engine"), (12, "worker"), (13, "helper")
    ]  # fmt: skip
    assert read_tree(500, tmp_path) == ()


def test_a_child_that_runs_is_found_with_its_memory_and_its_descriptors() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"on\n")
        child.stdin.flush()
        child.stdout.readline()  # it has become cat
        (found,) = [each for each in read_tree(os.getpid()) if each.pid == child.pid]
        assert found.name == "cat"
        assert found.rss_anon is not None
        assert found.fds is not None
        assert found.fds >= 3
        child.stdin.close()


def test_a_process_that_ends_while_it_is_read_is_gone_and_not_of_another_user(tmp_path: Path) -> None:
    write_process(tmp_path, 10)
    shutil.rmtree(tmp_path / "10" / "fd")
    assert read_process(10, tmp_path) is None
