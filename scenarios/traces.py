"""Recorded traces (Azure LLM inference CSV, Mooncake JSONL) are read row by row and replayed with scaling.

Rows are never merged, spread or sorted, so several rows at one time, bursts and gaps stay as they are. Only keys of the
scenario change rows, and `describe` reports by how much.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from scenarios.distributions import Uniform
from scenarios.load import Load, Trace

AZURE_HEADER: Final = "TIMESTAMP,ContextTokens,GeneratedTokens"
HASH_BLOCK_TOKENS: Final = 512  # prompt tokens of one hash id in the Mooncake release
NS_PER_S: Final = 1_000_000_000


class TraceProblem(ValueError):
    """A trace can't be read. The text names file and line."""


class TraceRow(NamedTuple):  # made a million times a run, at a third of the cost of a frozen dataclass
    """A recorded request. `t_s` counts from the first row; `hash_ids` name the prompt's blocks of 512 tokens."""

    t_s: float
    prompt_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] = ()


class ReplayRow(NamedTuple):
    """A row after scaling. `lap` counts the restarts of the trace."""

    t_s: float
    prompt_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...]
    block_tokens: int
    """The tokens of one hash id after scaling."""
    lap: int


def replay(load: Load) -> Iterator[ReplayRow]:
    """The rows of a load's trace, scaled, clamped and looped. They are read lazily."""
    trace = load.trace
    assert trace is not None, f"load {load.id} has no trace"
    block_tokens = max(1, round(HASH_BLOCK_TOKENS * trace.token_scale))
    start_s, lap = 0.0, 0
    while True:
        t_s, last_s, rows = start_s, 0.0, 0
        for row in read_trace(Path(trace.file)):
            t_s += _gap_s(row.t_s - last_s, trace)
            last_s, rows = row.t_s, rows + 1
            prompt = _scaled(row.prompt_tokens, trace.token_scale, load.prompt_tokens)
            output = _scaled(row.output_tokens, trace.token_scale, load.output_tokens)
            yield ReplayRow(t_s, prompt, output, row.hash_ids, block_tokens, lap)
        if not trace.loop:
            return
        # One mean gap between laps keeps the mean rate and avoids two rows at one time.
        start_s, lap = t_s + max((t_s - start_s) / max(1, rows - 1), 0.001), lap + 1


def by_second(load: Load, until_s: int) -> list[int]:
    """The number of rows of a load's trace in each second up to `until_s`, after scaling."""
    counts = [0] * until_s
    for row in replay(load):
        if row.t_s >= until_s:
            break
        counts[int(row.t_s)] += 1
    return counts


def read_trace(path: Path) -> Iterator[TraceRow]:
    """The rows of a file as recorded. Raises TraceProblem when a row can't be read or goes back in time."""
    first_ns: int | None = None
    last_ns = 0
    for number, (stamp_ns, prompt, output, hash_ids) in _rows(path):
        if first_ns is None:
            first_ns = last_ns = stamp_ns
        if stamp_ns < last_ns:
            raise TraceProblem(f"{path}:{number}: the stamp lies before the row above; sort the file by time")
        last_ns = stamp_ns
        yield TraceRow((stamp_ns - first_ns) / NS_PER_S, prompt, output, hash_ids)
    if first_ns is None:
        raise TraceProblem(f"{path}: the trace has no rows")


def sniff(path: Path) -> None:
    """Read the first rows. Raises TraceProblem when the format is unknown."""
    for _ in islice(read_trace(path), 3):
        pass


def describe(load: Load) -> dict[str, object]:
    """Describe how the replay changes the file, for the run's record: digest, scaling, clamps, and affected rows.

    It reads the whole file once. Times are seconds after scaling.
    """
    trace = load.trace
    assert trace is not None, f"load {load.id} has no trace"
    rows = clamped = cut = 0
    cut_s = span_s = last_s = 0.0
    for row in read_trace(Path(trace.file)):
        rows += 1
        clamped += any(
            _scaled(tokens, trace.token_scale, distribution) != _scaled(tokens, trace.token_scale, None)
            for tokens, distribution in (
                (row.prompt_tokens, load.prompt_tokens),
                (row.output_tokens, load.output_tokens),
            )
        )
        gap_s = (row.t_s - last_s) * trace.time_scale
        kept_s = _gap_s(row.t_s - last_s, trace)
        cut, cut_s, span_s, last_s = cut + (kept_s < gap_s), cut_s + gap_s - kept_s, span_s + kept_s, row.t_s
    return {
        "file": trace.file,
        "sha256": hashlib.sha256(Path(trace.file).read_bytes()).hexdigest(),
        "rows": rows,
        "span_s": span_s,
        "time_scale": trace.time_scale,
        "token_scale": trace.token_scale,
        "loop": trace.loop,
        "gap_max_s": trace.gap_max,
        "gaps_cut": cut,
        "gaps_cut_s": cut_s,
        "prompt_tokens": _clamp_of(load.prompt_tokens),
        "output_tokens": _clamp_of(load.output_tokens),
        "rows_clamped": clamped,
    }


@dataclass(frozen=True)
class TraceFolders:
    """The folders in which traces are looked up, in order: the scenario's, the current one, SEATRIAL_DATA."""

    folders: Sequence[Path]

    @classmethod
    def of(cls, scenario: Path, environ: Mapping[str, str]) -> "TraceFolders":
        named = [Path(each).expanduser() for each in environ.get("SEATRIAL_DATA", "").split(":") if each]
        return cls((scenario.resolve().parent, Path.cwd(), *named))

    def candidates(self, file: str) -> list[Path]:
        """All paths that are tried, each once."""
        return list(dict.fromkeys(folder / Path(file).expanduser() for folder in self.folders))

    def find(self, file: str) -> Path | None:
        return next((path for path in self.candidates(file) if path.is_file()), None)


_Raw = tuple[int, tuple[int, int, int, tuple[int, ...]]]  # line number, (stamp ns, prompt, output, hash ids)
_STAMP: Final = re.compile(r"^(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:\+00:00|Z)?$")


def _rows(path: Path) -> Iterator[_Raw]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            head = lines.readline().strip()
            if head.startswith("{"):
                lines.seek(0)
                parse = _mooncake
                first = 1
            elif head == AZURE_HEADER:
                parse = _azure
                first = 2
            else:
                raise TraceProblem(f"{path}:1: neither the header {AZURE_HEADER} nor a JSON object")
            for number, line in enumerate(lines, first):
                if line.strip():
                    try:
                        yield number, parse(line)
                    except (ValueError, KeyError, TypeError) as error:
                        raise TraceProblem(f"{path}:{number}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TraceProblem(f"{path}: {error}") from None


def _azure(line: str) -> tuple[int, int, int, tuple[int, ...]]:
    cells = line.strip().split(",")
    if len(cells) != 3:
        raise ValueError(f"{len(cells)} cells instead of 3")
    stamp = _STAMP.match(cells[0])
    if stamp is None:
        raise ValueError(f'"{cells[0]}" is no stamp such as 2023-11-16 18:17:03.9799600')
    # datetime keeps 6 digits and the trace has 7, so the fraction is parsed separately
    whole_s = int(datetime.fromisoformat(stamp[1]).replace(tzinfo=UTC).timestamp())
    return whole_s * NS_PER_S + int((stamp[2] or "0").ljust(9, "0")), _whole(cells[1]), _whole(cells[2]), ()


def _mooncake(line: str) -> tuple[int, int, int, tuple[int, ...]]:
    row = json.loads(line)
    for key in ("timestamp", "input_length", "output_length"):
        if key not in row:
            raise ValueError(f'no key "{key}"')
    stamp_ns = round(row["timestamp"] * 1_000_000)
    hash_ids = tuple([_whole(each) for each in row.get("hash_ids", ())])
    return stamp_ns, _whole(row["input_length"]), _whole(row["output_length"]), hash_ids


def _whole(value: object) -> int:
    if type(value) is int and value >= 0:
        return value
    number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else -1
    if number < 0:
        raise ValueError(f"{value!r} is no count of tokens")
    return number


def _gap_s(gap_s: float, trace: Trace) -> float:
    scaled_s = gap_s * trace.time_scale
    return scaled_s if trace.gap_max is None else min(scaled_s, trace.gap_max)


def _scaled(tokens: int, scale: float, clamp: object) -> int:
    scaled = max(1, round(tokens * scale))
    return min(max(scaled, clamp.low), clamp.high) if isinstance(clamp, Uniform) else scaled


def _clamp_of(distribution: object) -> list[int] | None:
    return [distribution.low, distribution.high] if isinstance(distribution, Uniform) else None
