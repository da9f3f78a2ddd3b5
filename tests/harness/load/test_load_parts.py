"""Small parts of the load: buckets, spool, prompts, cancels, malformed bodies, commands, self-audit, plan time."""

import errno
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.load.cancel import CancelAt, parse_cancel
from harness.load.control import ORPHANED, commands, parse_command
from harness.load.itl import BITS, UNIT_NS, GapHistogram
from harness.load.malformed import malformed_body
from harness.load.plan_clock import PlanClock
from harness.load.prompt import canary_text, prompt_text, text_digest
from harness.load.selfaudit import SelfAudit
from harness.load.spool import Spool, SpoolFull
from scenarios.arrivals import PromptPart

SECOND = 1_000_000_000


def bucket(value_ns: int) -> int:
    """The lower edge (ns) of the bucket that holds a value, without the histogram's arithmetic on bits."""
    units, width = value_ns // UNIT_NS, 1
    while units // width >= 2**BITS:
        width *= 2
    return units // width * width * UNIT_NS


@given(st.integers(0, 10**13))
def test_a_bucket_holds_its_value_within_a_tenth_of_a_percent(value_ns: int) -> None:
    edge = bucket(value_ns)
    assert 0 <= value_ns - edge < max(UNIT_NS, value_ns / 1000)
    assert bucket(edge) == edge


def test_a_window_counts_by_load_and_starts_afresh() -> None:
    window = GapHistogram(0)
    window.add("chat", 5_000_000)
    window.add("chat", 5_000_000)
    window.add("probe", 7_000)
    assert window.rotate(9 * SECOND) == []
    rows = window.rotate(10 * SECOND)
    assert [(row["load"], row["bucket"], row["n"]) for row in rows] == [
        ("chat", bucket(5_000_000), 2),
        ("probe", 7_000, 1),
    ]
    assert (rows[0]["t_ns"], rows[0]["width_ns"]) == (0, 10 * SECOND)
    window.add("chat", 1_000)
    assert [(row["t_ns"], row["width_ns"]) for row in window.rotate(12 * SECOND, cut=True)] == [
        (10 * SECOND, 2 * SECOND)
    ]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 10**11)), st.integers(1, 3)), max_size=8))
def test_a_window_counts_each_gap_in_its_own_bucket(told: list[tuple[str, list[int], int]]) -> None:
    window, counted = GapHistogram(0), Counter[tuple[str, int]]()
    for load, gaps_ns, n in told:
        window.add_all(load, gaps_ns, n)
        for gap_ns in gaps_ns:
            window.add(load, gap_ns)
            counted[load, bucket(gap_ns)] += n + 1
    rows = window.rotate_rows(SECOND, cut=True)
    assert rows == [(0, SECOND, load, "itl", edge, n) for (load, edge), n in sorted(counted.items())]


def test_a_gap_is_never_negative() -> None:
    with pytest.raises(AssertionError, match="not monotonic"):
        GapHistogram(0).add_all("chat", [5, -1], 1)


def test_a_window_that_is_cut_keeps_nothing_for_the_next_one() -> None:
    window = GapHistogram(0)
    window.add("chat", 1_000)
    assert [row["n"] for row in window.rotate(3 * SECOND, cut=True)] == [1]
    window.add("chat", 2_000)
    assert window.rotate(12 * SECOND) == [], "10 s from the cut on"
    assert [(row["t_ns"], row["n"]) for row in window.rotate(13 * SECOND)] == [(3 * SECOND, 1)]


def test_a_spool_line_is_one_line_and_holds_no_nul(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.jsonl")
    spool.put({"e": "reply", "sample": "a\0b\nc"})
    spool.close()
    assert (tmp_path / "s.jsonl").read_bytes() == b'{"e":"reply","sample":"a\\u2400b\\nc"}\n'


def test_a_half_line_of_a_dead_writer_does_not_mix_with_the_next(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(b'{"e":"a"}\n{"e":"ha')
    spool = Spool(tmp_path / "s.jsonl")
    spool.put({"e": "b"})
    spool.close()
    assert (tmp_path / "s.jsonl").read_bytes().splitlines() == [b'{"e":"a"}', b'{"e":"ha', b'{"e":"b"}']


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path / "s.jsonl")

    def no_space(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", no_space)
        with pytest.raises(SpoolFull, match=r"s\.jsonl: No space left"):
            spool.put({"e": "b"})
        patch.setattr(os, "write", lambda fd, data: 3)
        with pytest.raises(SpoolFull, match="3 of 10 bytes"):
            spool.put({"e": "b"})
    spool.close()


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 3000)), min_size=1, max_size=4))
def test_a_prompt_is_ascii_of_exactly_the_size_of_its_parts(parts: list[tuple[int, int]]) -> None:
    text = prompt_text([PromptPart(seed, tokens) for seed, tokens in parts])
    assert text.isascii()
    assert text.isprintable()
    assert len(text) == sum(tokens for _, tokens in parts)


def test_prompts_of_one_prefix_are_alike_in_it_and_part_after_it() -> None:
    one = prompt_text([PromptPart(1, 100), PromptPart(2, 100)])
    two = prompt_text([PromptPart(1, 150), PromptPart(3, 150)])
    assert one[:100] == two[:100]
    assert one[100:108] != two[150:158]


def test_prompts_of_different_rows_part_at_once() -> None:
    starts = {prompt_text([PromptPart(seed, 64)])[:8] for seed in range(200)}
    assert len(starts) == 200


def test_canaries_are_the_same_for_a_seed_and_differ_by_index() -> None:
    assert canary_text(7, 1) == canary_text(7, 1)
    assert len({canary_text(7, index) for index in range(8)} | {canary_text(8, 1)}) == 9
    assert text_digest("a") == text_digest("a") != text_digest("b")


def test_the_forms_of_a_cancel() -> None:
    assert parse_cancel(None) is None
    assert parse_cancel("queued") == CancelAt("queued")
    assert parse_cancel("prefill") == CancelAt("prefill")
    assert parse_cancel("token 3") == CancelAt("token", 3)
    assert parse_cancel("after 1.5s") == CancelAt("after", after_s=1.5)


@pytest.mark.parametrize(
    "text", ["", "token", "token 0", "token -1", "token x", "decode", "queued 3", "after", "after 3", "after -1s"]
)
def test_any_other_cancel_says_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"allowed are|a time is a number and its unit"):
        parse_cancel(text)


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_every_malformed_form_is_a_different_wrong_thing(api: str) -> None:
    bodies = dict(malformed_body(row, "m", api) for row in range(8))
    assert len(set(bodies.values())) == 8
    assert malformed_body(8, "m", api) == malformed_body(0, "m", api)
    assert json.loads(bodies["negative_tokens"])["max_tokens"] == -1


def test_commands_come_one_by_one_and_the_end_of_the_pipe_is_a_stop() -> None:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b'{"cmd":"start","t0_ns":5}\n\n{"cmd":"stop","drain_s":1.5}\nhalf')
    os.close(write_fd)
    heard = list(commands(read_fd))
    os.close(read_fd)
    assert [(command.cmd, command.fields) for command in heard[:2]] == [
        ("start", {"t0_ns": 5}),
        ("stop", {"drain_s": 1.5}),
    ]
    assert heard[-1] == ORPHANED


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"x", "not JSON"),
        (b"[]", "unknown command"),
        (b'{"cmd":"fly"}', "allowed: start, phase, pause, resume, status, stop"),
        (b'{"cmd":"stop","drain_s":-1}', "drain_s -1: must be a number of seconds"),
        (b'{"cmd":"start","t0_ns":"now"}', "t0_ns 'now': must be an integer"),
    ],
)
def test_a_bad_command_is_answered_with_its_problem(line: bytes, problem: str) -> None:
    assert problem in parse_command(line).problem


def test_the_self_audit_gives_lateness_of_this_second_only() -> None:
    now, cpu = [0], [0]
    audit = SelfAudit(lambda: now[0], lambda: cpu[0])
    for late_ms in range(1, 101):
        audit.late(late_ms * 1_000_000)
    audit.late(-5)
    now[0], cpu[0] = SECOND, SECOND // 4
    line = audit.line()
    assert (line["lateness_ms_p99"], line["lateness_ms_max"], line["cpu"]) == (99.0, 100.0, 0.25)
    assert isinstance(line["rss_bytes"], int)
    assert line["rss_bytes"] > 1 << 20
    assert audit.line()["lateness_ms_p99"] is None


def test_plan_time_stands_still_in_a_pause() -> None:
    line = PlanClock()
    line.start(100 * SECOND)
    assert line.due_ns(5.0) == 105 * SECOND
    line.pause(103 * SECOND)
    line.pause(104 * SECOND)  # a second pause changes nothing
    assert not line.running
    line.resume(110 * SECOND)
    assert line.running
    assert line.due_ns(5.0) == 112 * SECOND


def test_a_pause_before_the_start_shifts_only_what_it_covers_of_it() -> None:
    early, over_it = PlanClock(), PlanClock()
    early.pause(1)
    early.resume(5)
    early.start(10)
    assert early.due_ns(0.0) == 10
    over_it.start(10)
    over_it.pause(4)  # the start lies in the future
    over_it.resume(16)
    assert over_it.due_ns(0.0) == 16
