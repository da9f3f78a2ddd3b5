from typing import Any

import pytest

from faults import Action, Catalogue, Kind, Point, Scope, SpecError, UnknownName, actions, resolve
from faults.points import shows
from tests.faults.stage import TAKE, OutOfBlocks, catalogue, spec


def point(**changed: Any) -> Point:
    fields = {"name": "kv.take", "layer": "memory", "breaks": "it", "actions": (actions.drop(),)}
    return Point(**{**fields, **changed})


def test_a_name_is_declared_once() -> None:
    with pytest.raises(ValueError, match=r'point "kv\.take" is declared by memory and swap; rename one'):
        Catalogue([TAKE, point(layer="swap")])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kv.tkae", 'no point "kv.tkae"; did you mean "kv.take"?'),
        (
            "swap.out",
            'point "swap.out" is planned and not served yet; choose one of device.launch, kv.take, server.stream',
        ),
        ("zzz", 'no point "zzz"; known: device.launch, kv.take, server.stream'),
    ],
)
def test_an_unknown_point_gets_the_nearest_or_an_honest_planned(name: str, text: str) -> None:
    with pytest.raises(UnknownName) as caught:
        catalogue().get(name)
    assert str(caught.value) == text


def test_a_planned_name_that_is_declared_is_no_longer_planned() -> None:
    assert catalogue().planned_names() == ("swap.out",)
    made = Catalogue([TAKE, point(name="swap.out")], ["swap.out"])
    assert made.planned_names() == ()
    assert made.get("swap.out").name == "swap.out"
    assert made.names() == ("kv.take", "swap.out")


class NeedsTwo(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one, two)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "Oom", "kind": Kind.DROP}, "give a name of lower-case letters"),
        ({"name": "oom", "kind": Kind.DROP, "argument": "seconds"}, 'argument "seconds" is not one of duration'),
        ({"name": "oom", "kind": Kind.DROP, "placements": ("beside",)}, "give one or more of before, after"),
        ({"name": "oom", "kind": Kind.DROP, "placements": ()}, "give one or more of before, after"),
        ({"name": "oom", "kind": Kind.RAISE}, "an error type belongs to kind RAISE"),
        ({"name": "oom", "kind": Kind.DROP, "error": OutOfBlocks}, "an error type belongs to kind RAISE"),
        ({"name": "oom", "kind": Kind.DROP, "words": ("nan",)}, 'make it "word"'),
        ({"name": "oom", "kind": Kind.RAISE, "error": NeedsTwo}, "NeedsTwo can't be made from one message"),
    ],
)
def test_an_action_that_could_not_work_is_refused_when_made(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Action(**fields)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"name": "kv"}, "give lower-case names joined by dots"),
        ({"actions": ()}, "needs at least one action"),
        ({"breaks": ""}, "a sentence saying what it breaks"),
        ({"actions": (actions.drop(), actions.drop())}, "two actions of one name"),
        ({"scope": (shows("tenant"),)}, r"scope \['tenant'\] unknown; choose one of group, session"),
    ],
)
def test_a_point_that_could_not_work_is_refused_when_made(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        point(**changed)


RESOLVE: list[tuple[dict[str, Any], list[str]]] = [
    ({"do": "kv.take: oom"}, []),
    ({"do": "kv.take: oom", "place": "after"}, []),
    ({"do": "device.launch: hang"}, []),
    ({"do": "device.launch: hang 20s"}, []),
    ({"do": "device.launch: corrupt nan"}, []),
    ({"do": "device.launch: lie 0.5"}, []),
    ({"do": "kv.tkae: oom"}, ['no point "kv.tkae"; did you mean "kv.take"?']),
    ({"do": "kv.take: omo"}, ['point "kv.take" has no action "omo"; did you mean "oom"?']),
    (
        {"do": "kv.take: oom", "place": "in_flight"},
        ['place = "in_flight" is not permitted for "kv.take: oom"; give "before" or "after"'],
    ),
    (
        {"do": "kv.take: oom", "scope": Scope(group="b", graph="g")},
        ['scope.graph: "kv.take" does not pass graph, so nothing would match; it passes group, phase'],
    ),
    ({"do": "kv.take: oom 3"}, ['do = "kv.take: oom 3": "oom" takes no argument; leave "3" out']),
    (
        {"do": "device.launch: delay"},
        ['do = "device.launch: delay": "delay" needs a duration, e.g. "delay 20s"'],
    ),
    (
        {"do": "device.launch: corrupt"},
        ['do = "device.launch: corrupt": "corrupt" needs a word, e.g. "corrupt nan"'],
    ),
    (
        {"do": "device.launch: hang soon"},
        ['do = "device.launch: hang soon": "soon" is no duration; write a number with one of ms s m h, e.g. "20s"'],
    ),
    (
        {"do": "device.launch: hang 0s"},
        ['do = "device.launch: hang 0s": the duration is 0, so the fault would have no effect; give more than 0'],
    ),
    (
        {"do": "device.launch: hang 2m"},
        ['do = "device.launch: hang 2m": the duration is above ttl = 60s; shorten it or raise ttl'],
    ),
    ({"do": "device.launch: hang 2m", "ttl_s": 121.0}, []),
    (
        {"do": "device.launch: lie nan"},
        ['do = "device.launch: lie nan": "nan" is not a finite number; write it like 0.5'],
    ),
    (
        {"do": "device.launch: corrupt nna"},
        ['do = "device.launch: corrupt nna": no "corrupt" of kind "nna"; did you mean "nan"?'],
    ),
    (
        {"do": "device.launch: delay 1", "place": "after", "scope": Scope(pool="kv")},
        [
            'scope.pool: "device.launch" does not pass pool, so nothing would match; it passes group',
            'place = "after" is not permitted for "device.launch: delay"; give "before"',
            'do = "device.launch: delay 1": "1" is no duration; write a number with one of ms s m h, e.g. "20s"',
        ],
    ),
]


@pytest.mark.parametrize(("fields", "problems"), RESOLVE, ids=[str(fields["do"]) for fields, _ in RESOLVE])
def test_resolve_finds_the_point_or_says_all_that_is_wrong(fields: dict[str, Any], problems: list[str]) -> None:
    if not problems:
        (resolved,) = resolve([spec(**fields)], catalogue())
        assert (resolved.point.name, resolved.action.name) == (resolved.spec.do.point, resolved.spec.do.action)
    else:
        with pytest.raises(SpecError) as caught:
            resolve([spec(**fields)], catalogue())
        assert list(caught.value.problems) == [f'fault "f": {problem}' for problem in problems]


def test_resolve_reports_the_problems_of_all_specs_and_a_doubled_occurrence() -> None:
    with pytest.raises(SpecError) as caught:
        resolve([spec("kv.take: x", id="a"), spec("kv.take: oom"), spec("kv.take: oom")], catalogue())
    assert [problem[:9] for problem in caught.value.problems] == ['fault "a"', 'fault "f"']
    assert "occurrence 0 is given twice" in caught.value.problems[1]


def test_a_duration_argument_is_resolved_to_seconds() -> None:
    (hang,) = resolve([spec("device.launch: hang 1500ms")], catalogue())
    assert hang.seconds == 1.5
