"""Small traces in the recorded formats, made here, with the traits that a reader must keep."""

import json
from pathlib import Path

from scenarios.load import Load

# (seconds, prompt, output): three on one stamp, a burst, a gap of 200 s, tokens of 7 thousand
ROWS = [(0.0, 4808, 10), (0.0, 3180, 8), (0.0, 110, 27), (0.05, 7433, 14), (0.0501234, 3, 6), (200.5, 900, 1)]


def azure(folder: Path) -> Path:
    """Seven digits after the second, as recorded."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for t_s, prompt, output in ROWS:
        ticks = round((3 + t_s) * 10**7) + 9_799_600
        minute, rest = divmod(ticks, 60 * 10**7)
        second, fraction = divmod(rest, 10**7)
        lines.append(f"2023-11-16 18:{17 + minute:02}:{second:02}.{fraction:07},{prompt},{output}")
    path = folder / "azure.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def mooncake(folder: Path) -> Path:
    """Whole milliseconds, and prefix blocks of 512 tokens that the rows share."""
    path = folder / "mooncake.jsonl"
    with path.open("w") as file:
        for n, (t_s, prompt, output) in enumerate(ROWS):
            blocks = [0] + [100 * n + block for block in range(1, -(-prompt // 512))]
            row = {"timestamp": round(t_s * 1000), "input_length": prompt, "output_length": output, "hash_ids": blocks}
            file.write(json.dumps(row) + "\n")
    return path


def load_of(path: Path, load_id: str = "flood", **words: object) -> Load:
    """A trace load; words in `trace__x` go to the trace."""
    trace = {key.removeprefix("trace__"): value for key, value in words.items() if key.startswith("trace__")}
    rest = {key: value for key, value in words.items() if not key.startswith("trace__")}
    return Load.model_validate({"id": load_id, "arrivals": "trace", "trace": {"file": str(path), **trace}, **rest})
