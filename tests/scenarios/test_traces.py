"""Traces keep their shape: rows on one stamp, bursts, gaps and shared prefixes; only named scaling changes them."""

from itertools import islice
from pathlib import Path

import pytest

from scenarios.arrivals import arrivals, forecast
from scenarios.traces import TraceProblem, describe, read_trace, replay, sniff
from tests.scenarios.traces import ROWS, azure, load_of, mooncake


def test_an_azure_trace_reads_as_it_was_recorded(tmp_path: Path) -> None:
    rows = list(read_trace(azure(tmp_path)))
    assert [(row.prompt_tokens, row.output_tokens) for row in rows] == [row[1:] for row in ROWS]
    assert [row.t_s for row in rows] == pytest.approx([row[0] for row in ROWS], abs=1e-7)
    assert rows[0].t_s == rows[1].t_s == rows[2].t_s == 0.0


def test_a_mooncake_trace_reads_as_it_was_recorded(tmp_path: Path) -> None:
    rows = list(read_trace(mooncake(tmp_path)))
    assert [row.prompt_tokens for row in rows] == [row[1] for row in ROWS]
    assert [row.t_s for row in rows] == pytest.approx([row[0] for row in ROWS], abs=1e-3)
    assert rows[0].hash_ids == tuple(range(10))
    assert rows[3].hash_ids[:2] == (0, 301)


def test_scaling_multiplies_times_and_tokens_and_keeps_one_token(tmp_path: Path) -> None:
    rows = list(replay(load_of(azure(tmp_path), trace__time_scale=2.0, trace__token_scale=0.1)))
    assert [row.t_s for row in rows] == pytest.approx([2 * row[0] for row in ROWS], abs=1e-6)
    assert [row.prompt_tokens for row in rows] == [481, 318, 11, 743, 1, 90]
    assert [row.output_tokens for row in rows] == [1, 1, 3, 1, 1, 1]


def test_a_gap_is_cut_to_its_most_after_scaling_and_others_stay(tmp_path: Path) -> None:
    rows = list(replay(load_of(azure(tmp_path), trace__time_scale=2.0, trace__gap_max="30s")))
    assert [row.t_s for row in rows] == pytest.approx([0, 0, 0, 0.1, 0.1002468, 30.1002468], abs=1e-6)


def test_ranges_of_tokens_clamp_the_trace(tmp_path: Path) -> None:
    rows = list(replay(load_of(azure(tmp_path), prompt_tokens=[100, 1000], output_tokens=[8, 12])))
    assert [row.prompt_tokens for row in rows] == [1000, 1000, 110, 1000, 100, 900]
    assert [row.output_tokens for row in rows] == [10, 8, 12, 12, 8, 8]


def test_a_loop_goes_on_with_one_mean_gap_at_the_seam(tmp_path: Path) -> None:
    rows = list(islice(replay(load_of(azure(tmp_path), trace__loop=True)), 13))
    assert rows[6].t_s == pytest.approx(200.5 + 200.5 / 5, abs=1e-6)
    assert [row.lap for row in rows] == [0] * 6 + [1] * 6 + [2]
    assert [row.prompt_tokens for row in rows[6:12]] == [row[1] for row in ROWS]


def test_a_loop_over_one_row_moves_on(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,5,5\n")
    times_s = [row.t_s for row in islice(replay(load_of(path, trace__loop=True)), 3)]
    assert times_s[0] < times_s[1] < times_s[2]


def test_what_was_done_to_a_trace_is_described(tmp_path: Path) -> None:
    facts = describe(load_of(azure(tmp_path), trace__time_scale=2.0, trace__gap_max="30s", prompt_tokens=[1, 1000]))
    assert facts["rows"] == 6
    assert (facts["gaps_cut"], facts["rows_clamped"]) == (1, 3)
    assert facts["gaps_cut_s"] == pytest.approx(2 * 200.4498766 - 30)
    assert facts["span_s"] == pytest.approx(30.1002468)
    assert (facts["time_scale"], facts["gap_max_s"], facts["prompt_tokens"]) == (2.0, 30.0, [1, 1000])
    assert len(str(facts["sha256"])) == 64


def test_rows_on_one_stamp_become_arrivals_at_one_instant(tmp_path: Path) -> None:
    found = list(arrivals(load_of(azure(tmp_path)), 7))
    assert [row.t_s for row in found[:3]] == [0.0, 0.0, 0.0]
    assert len({row.prompt_seed for row in found}) == 6
    assert list(arrivals(load_of(azure(tmp_path)), 7, (0.01, 100))) == found[3:5]


def test_equal_hash_ids_give_prompts_that_begin_alike_and_a_later_lap_does_not(tmp_path: Path) -> None:
    load = load_of(mooncake(tmp_path), trace__loop=True, trace__token_scale=0.1)
    rows = list(islice(arrivals(load, 7), 12))
    firsts = {row.parts[0].seed for row in rows[:6]}
    assert len(firsts) == 1
    assert rows[0].parts[0].tokens == 51
    assert rows[0].parts[1].seed != rows[1].parts[1].seed
    assert rows[6].parts[0].seed not in firsts
    assert all(sum(part.tokens for part in row.parts) == row.prompt_tokens for row in rows)


def test_a_forecast_counts_the_rows(tmp_path: Path) -> None:
    cost = forecast(load_of(azure(tmp_path)), (0, 100))
    assert (cost.requests, cost.prompt_tokens, cost.output_tokens) == (5, sum(r[1] for r in ROWS[:5]), 65)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: neither the header"),
        ("a,b,c\n1,2,3\n", "1: neither the header"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no rows"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5\n", "2: 2 cells"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,5,5\n", '2: "yesterday" is no stamp'),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:17:03,5,5\n", "2: "),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,-5,5\n", "2: '-5' is no count"),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5,5\n2023-11-16 18:17:02,5,5\n",
            "3: the stamp lies before the row above",
        ),
        ('{"timestamp": 0, "input_length": 5}\n', '1: no key "output_length"'),
        ('{"timestamp": 0, "input_length": -5, "output_length": 5}\n', "1: -5 is no count"),
        ('{"timestamp": 0, "input_length": true, "output_length": 5}\n', "1: True is no count"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [1, -2]}\n', "1: -2 is no count"),
        ('{"timestamp": "a", "input_length": 5, "output_length": 5}\n', "1: "),
        ("{\n", "1: "),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t"
    path.write_text(text)
    with pytest.raises(TraceProblem) as problem:
        list(read_trace(path))
    assert str(problem.value).startswith(str(path))
    assert message in str(problem.value)


def test_the_first_rows_tell_whether_a_file_is_a_trace(tmp_path: Path) -> None:
    sniff(azure(tmp_path))
    sniff(mooncake(tmp_path))
    with pytest.raises(TraceProblem):
        sniff(Path(__file__))
