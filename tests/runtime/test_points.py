import re
from pathlib import Path

import runtime
from runtime.points import MARKS, PLANNED, catalogue

SOURCES = [path.read_text() for path in Path(runtime.__file__).parent.rglob("*.py")]


def test_marks_are_exactly_those_that_the_code_counts():
    counted = {name for text in SOURCES for name in re.findall(r'marks\.hit\(\s*"([a-z_.]+)"', text)}
    constants = {
        name for text in SOURCES for name in re.findall(r'^[A-Z_]+ = "([a-z]+\.[a-z_]+)"$', text, re.MULTILINE)
    }
    assert counted <= MARKS | constants
    assert counted | constants >= MARKS


def test_every_symptom_is_something_that_some_part_can_show():
    points = catalogue()
    for name in points.names():
        for action in points.get(name).actions:
            form, _, word = action.symptom.partition(":")
            assert form in ("mark", "outcome", "audit", "reply", "event", "canary"), f"{name}: {action.word}"
            if form == "mark":
                assert word in MARKS, f"{name}: {action.word} shows {word}, which nobody counts"


def test_planned_points_do_not_exist_yet():
    assert not set(PLANNED) & set(catalogue().names())


def test_every_point_is_crossed_somewhere():
    code = "\n".join(SOURCES)
    for name in catalogue().names():
        (constant,) = set(re.findall(rf'^([A-Z0-9_]+) = Point\(\s*name="{re.escape(name)}"', code, re.MULTILINE))
        assert re.search(rf"(fire|cross|_cross)\(\s*{constant}\b", code), f"{name} is declared and never crossed"
