import re
from pathlib import Path

import runtime
from runtime.points import MARKS

SOURCES = [path.read_text() for path in Path(runtime.__file__).parent.rglob("*.py")]


def test_marks_are_exactly_those_that_the_code_counts():
    counted = {name for text in SOURCES for name in re.findall(r'marks\.hit\(\s*"([a-z_.]+)"', text)}
    constants = {
        name for text in SOURCES for name in re.findall(r'^[A-Z_]+ = "([a-z]+\.[a-z_]+)"$', text, re.MULTILINE)
    }
    assert counted <= MARKS | constants
    assert counted | constants >= MARKS
