import ast
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import faults
from faults import Do, FaultSpec, Scope, SpecError, When, parse_do, parse_duration_s
from faults.spec import PLACES
from tests.faults.stage import spec

HELP = 'write "point: action [argument]", e.g. "device.launch: hang 20s"'

GRAMMAR = [
    ("kv.take: oom", Do("kv.take", "oom")),
    ("  kv.take :oom ", Do("kv.take", "oom")),
    ("device.launch: hang 20s", Do("device.launch", "hang", "20s")),
    ("device.launch: hang", Do("device.launch", "hang")),
    ("device.copy.h2d: corrupt bit_flip", Do("device.copy.h2d", "corrupt", "bit_flip")),
    ("device.mem_info: lie 0.5", Do("device.mem_info", "lie", "0.5")),
    ("device.mem_info: lie -1e9", Do("device.mem_info", "lie", "-1e9")),
    ("kv.take oom", [f'do = "kv.take oom": no ":" between point and action; {HELP}']),
    ("", [f'do = "": no ":" between point and action; {HELP}']),
    ("kv.take:", [f'do = "kv.take:": no action after ":"; {HELP}']),
    (
        "kv: oom",
        [f'do = "kv: oom": "kv" is no point name (lower-case names joined by dots); {HELP}'],
    ),
    (
        "KV.take: Oom",
        [
            f'do = "KV.take: Oom": "KV.take" is no point name (lower-case names joined by dots); {HELP}',
            f'do = "KV.take: Oom": "Oom" is no action name (lower-case letters, digits, _); {HELP}',
        ],
    ),
    (
        "device.launch: hang 20 s",
        ['do = "device.launch: hang 20 s": "20 s" is more than one argument; write a unit without a space, e.g. "20s"'],
    ),
    (
        "a.b: c d;e",
        [f'do = "a.b: c d;e": "d;e" is no argument (a duration, a number or a name); {HELP}'],
    ),
    (
        "a.b: c: d",
        [f'do = "a.b: c: d": "c:" is no action name (lower-case letters, digits, _); {HELP}'],
    ),
]


@pytest.mark.parametrize(("text", "wanted"), GRAMMAR, ids=[text or "empty" for text, _ in GRAMMAR])
def test_grammar_reads_a_line_or_says_all_that_is_wrong(text: str, wanted: Do | list[str]) -> None:
    if isinstance(wanted, Do):
        assert parse_do(text) == wanted
        assert parse_do(str(wanted)) == wanted
    else:
        with pytest.raises(SpecError) as caught:
            parse_do(text)
        assert list(caught.value.problems) == wanted


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("20s", 20.0), ("1.5m", 90.0), ("8h", 28800.0), ("0s", 0.0)]
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["20", "s", "-1s", "1 s", "1d", "1e3s", ".5s", "1S", "inf", "1s1s", "٣s"])
def test_no_duration_without_a_known_unit(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_duration_s(text)
    assert str(caught.value) == f'"{text}" is no duration; write a number with one of ms s m h, e.g. "20s"'


def test_from_json_names_every_problem_at_once() -> None:
    raw = {
        "id": "9lives",
        "n": True,
        "do": "kv.take oom",
        "plcae": "before",
        "place": "beside",
        "when": {"skip": -1, "tmies": 2, "probability": 1.5, "for_s": "20s", "after": "x.gone", "at_s": 1},
        "scope": {"group": 3, "tenant": "b"},
        "persist": 1,
        "ttl_s": float("inf"),
    }
    with pytest.raises(SpecError) as caught:
        FaultSpec.from_json(raw)
    starts = [problem.split(":")[0] for problem in caught.value.problems]
    assert sorted(starts) == sorted(
        [
            "id", "n", 'do = "kv.take oom"', "plcae", "place", "when.skip", "when.tmies", "when.probability",
            "when.for_s", "when.after", "when.after", "scope.group", "scope.tenant", "persist", "ttl_s",
        ]
    )  # fmt: skip
    text = str(caught.value)
    assert 'plcae: unknown key; did you mean "place"?' in text
    assert 'when.tmies: unknown key; did you mean "times"?' in text
    assert "n: True has the wrong type; give a whole number" in text
    assert "when.probability: 1.5 is not allowed; give more than 0 and at most 1" in text
    assert "when.after: can't be joined with at or every, both say when to arm; keep one of them" in text


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (None, "fault: None is not a table; give the fields of a FaultSpec"),
        ([], "fault: [] is not a table; give the fields of a FaultSpec"),
        ({"id": "a", "n": 0}, "do: is missing; give it"),
        ({"id": "a", "n": 0, "do": 7}, "do: 7 has the wrong type; give a string"),
        ({"id": "a", "n": 0, "do": "a.b: c", "when": 3}, "when: 3 has the wrong type; give a table"),
        (
            {"id": "a", "n": 0, "do": "a.b: c", "fired_min": 2},
            "fired_min: 2 is out of reach with times = 1; raise times",
        ),
        (
            {"id": "a", "n": 0, "do": "a.b: c", "when": {"after": "a.healed"}},
            "when.after: a.healed waits for itself; name another fault",
        ),
    ],
)
def test_from_json_refuses(raw: object, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        FaultSpec.from_json(raw)
    assert problem in caught.value.problems


names = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
seconds = st.floats(min_value=1e-6, max_value=1e6)
arming = st.one_of(
    st.just({}),
    st.builds(lambda at_s, every_s: {"at_s": at_s, "every_s": every_s}, seconds, st.none() | seconds),
    st.builds(lambda name: {"after": f"other-{name}.healed"}, names),
)
whens = st.builds(
    lambda arm, **rest: When(**arm, **rest),
    arming,
    for_s=st.none() | seconds,
    skip=st.integers(0, 99),
    times=st.none() | st.integers(1, 99),
    interval=st.integers(1, 99),
    probability=st.floats(min_value=0, max_value=1, exclude_min=True),
    space_bytes=st.integers(0, 2**40),
)
specs = st.builds(
    FaultSpec,
    id=names,
    n=st.integers(0, 99),
    do=st.builds(Do, st.builds("{}.{}".format, names, names), names, st.none() | names),
    place=st.sampled_from(PLACES),
    when=whens,
    scope=st.builds(Scope, *[st.none() | st.text(max_size=5) for _ in range(6)]),
    persist=st.booleans(),
    fired_min=st.integers(0, 1),
    ttl_s=st.none() | seconds,
    seed=st.integers(),
)


@given(specs)
def test_json_gives_an_equal_spec_back(made: FaultSpec) -> None:
    assert FaultSpec.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_the_net_is_one_minute_beyond_for_unless_given() -> None:
    assert spec("a.b: c").max_lifetime_s == 60
    assert spec("a.b: c", for_s=30.0).max_lifetime_s == 90
    assert spec("a.b: c", for_s=30.0, ttl_s=5.0).max_lifetime_s == 5


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or ".")
    return found


def test_spec_imports_no_other_file_of_ours_and_faults_only_the_standard_library() -> None:
    folder = Path(faults.__file__).parent
    assert not any(name.startswith("faults") for name in _imports(folder / "spec.py"))
    for path in folder.glob("*.py"):
        foreign = {name for name in _imports(path) if name.split(".")[0] not in {*sys.stdlib_module_names, "faults"}}
        assert not foreign, f"{path.name} imports {foreign}"


def test_the_public_list_exists_and_is_sorted() -> None:
    assert faults.__all__ == sorted(faults.__all__)
    assert all(hasattr(faults, name) for name in faults.__all__)
