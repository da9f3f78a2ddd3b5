"""Open files of a process: sockets are told apart, and the page cache of what it writes is counted once."""

import os
import socket
from pathlib import Path

import pytest

from harness.telemetry import open_files
from harness.telemetry.open_files import cached_bytes, read_open_files
from harness.telemetry.proc import file_cache, read_process

SELF = Path("/proc/self")


def test_sockets_are_counted_among_the_open_files() -> None:
    before = read_open_files(SELF)
    left, right = socket.socketpair()
    with left, right:
        after = read_open_files(SELF)
    assert before is not None and after is not None
    assert (after.sockets - before.sockets, after.fds - before.fds) == (2, 2)


def test_the_page_cache_of_a_file_open_for_writing_is_counted_in_pages(tmp_path: Path) -> None:
    with (tmp_path / "server.log").open("wb", buffering=0) as log:
        log.write(b"x" * 100_001)
        found = os.fstat(log.fileno())
        seen = read_open_files(SELF)
    assert seen is not None
    assert seen.written[found.st_dev, found.st_ino] == 25 * 4096


def test_a_log_that_is_cut_while_it_is_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_first(path: Path, size: int) -> int:
        os.truncate(path, 0)
        return cached_bytes(path, size)

    with (tmp_path / "server.log").open("wb", buffering=0) as log:
        log.write(b"x" * 8192)
        found = os.fstat(log.fileno())
        monkeypatch.setattr(open_files, "cached_bytes", cut_first)
        seen = read_open_files(SELF)
    assert seen is not None
    assert (found.st_dev, found.st_ino) not in seen.written


def test_a_file_that_is_only_read_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"x" * 9000)
    with path.open("rb") as weights:
        found = os.fstat(weights.fileno())
        seen = read_open_files(SELF)
    assert seen is not None
    assert (found.st_dev, found.st_ino) not in seen.written


def test_a_log_that_parent_and_child_share_is_counted_once(tmp_path: Path) -> None:
    with (tmp_path / "server.log").open("wb", buffering=0) as log:
        alone = read_process(os.getpid())
        log.write(b"x" * 8192)
        one = read_process(os.getpid())
    assert alone is not None and one is not None
    grown = [file_cache(tree) for tree in ((alone,), (one,), (one, one))]
    assert grown[1] == grown[2] == (grown[0] or 0.0) + 8192
