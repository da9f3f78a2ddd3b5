import re
from pathlib import Path

import runtime
from runtime.points import MARKS

CODE = "\n".join(path.read_text() for path in Path(runtime.__file__).parent.rglob("*.py"))


def test_every_mark_that_is_counted_by_name_can_be_named_in_a_scenario():
    constants = set(re.findall(r'^[A-Z_]+ = "([a-z]+\.[a-z_]+)"$', CODE, re.MULTILINE))
    assert set(re.findall(r'(?:counters\.hit|\.count)\(\s*"([a-z_.]+)"', CODE)) <= MARKS | constants


def test_every_mark_that_a_scenario_may_name_stands_in_the_code_that_counts_it():
    assert [mark for mark in MARKS if f'"{mark}"' not in CODE] == []
