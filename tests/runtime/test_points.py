"""Names of counters, collected from the code that counts."""

import re
from pathlib import Path

import runtime

LINES = [line for path in Path(runtime.__file__).parent.rglob("*.py") for line in path.read_text().splitlines()]
COUNTING = re.compile(r"counters\.hit\(|\.count\(|^[A-Z_]+ = ")
COUNTED = {name for line in LINES if COUNTING.search(line) for name in re.findall(r'"([a-z_]+\.[a-z_]+)"', line)}
"""Every counter that the runtime counts by a literal name or by a constant."""


def test_counters_are_found_in_the_code():
    assert {"contract.violation", "kv.tag_breach", "memory.pressure", "stream.cut"} <= COUNTED
