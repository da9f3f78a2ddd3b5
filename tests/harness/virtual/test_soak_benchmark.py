"""The benchmark of virtual time runs small, tells what it did, and finds that a limit was passed."""

from pathlib import Path

import pytest

from benchmarks import virtual_soak
from scenarios.traces import read_trace


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four minutes of a trace in Azure's form."""
    rows = [
        f"2023-11-16 18:{15 + second // 60:02}:{second % 60:02}.1,{200 + second * 7 % 900},{5 + second * 3 % 40}"
        for second in range(240)
        for _ in range(3)
    ]
    (tmp_path / virtual_soak.TRACE).write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_a_short_run_prints_its_table_and_a_limit_decides_the_exit_code(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["--data", str(data), "--requests", "120", "--blocks", "300"]
    assert virtual_soak.main([*short, "--limit-s", "1e9"]) == 0
    printed = capsys.readouterr().out
    for words in ("peak MiB", "us a request", "CPU us a step", "prefix hits", "evicted blocks", "preemptions"):
        assert words in printed
    assert "modelled on nothing measured" in printed
    assert virtual_soak.main([*short, "--limit-s", "0"]) == 1


def test_half_of_the_prompts_are_given_a_common_beginning_and_nothing_else_is_changed(data: Path) -> None:
    rate = virtual_soak.write_trace(data, data / "trace.jsonl")
    was, now = list(read_trace(data / virtual_soak.TRACE)), list(read_trace(data / "trace.jsonl"))
    assert rate == pytest.approx(720 / 239)
    assert [(row.prompt_tokens, row.output_tokens) for row in now] == [
        (row.prompt_tokens, row.output_tokens) for row in was
    ]
    assert [row.t_s for row in now] == pytest.approx([row.t_s for row in was], abs=1e-6)
    assert 0.4 < sum(bool(row.hash_ids) for row in now) / len(now) < 0.6
    assert {each for row in now for each in row.hash_ids} <= set(range(virtual_soak.PREFIXES))
