"""The reader: every problem at once, each with its place; nothing but `ScenarioProblems` for any text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.problems import WIDTH_MAX, ScenarioProblems
from scenarios.read import read, read_document, read_text
from tests.scenarios.documents import SOUND, problems_of, toml_documents

MANY = """\
schema = 1
naem = "x"
means = "something"
drive = "virtul"

[phases]
trial = 60
baseline = "10 minutes"

[[load]]
id = "chat"
raet = "6/s"
prompt_tokens = [400, 20]

[[load]]
id = "chat"
arrivals = "closed"
cancel = [{ share = 0.7, at = "token 0" }, { share = 1.5 }]

[[fault]]
id = "oom"
do = "kv.take"
when = { after = "omm.healed", probability = 2 }
expect = { outcomes = ["ok", "timeuot"] }

[[check]]
that = "ttft.p98 < 800ms"
where = "omm"
"""


def test_every_problem_is_reported_at_once_in_the_order_of_the_file() -> None:
    found = [(problem.line, problem.col, problem.key) for problem in problems_of(MANY)]
    assert found == [
        (2, 1, "naem"),
        (4, 9, "drive"),
        (7, 9, "phases.trial"),
        (8, 12, "phases.baseline"),
        (12, 1, "load[0].raet"),
        (13, 17, "load[0].prompt_tokens"),
        (15, 3, "load[1].users"),
        (16, 6, "load[1].id"),
        (18, 31, "load[1].cancel[0].at"),
        (18, 54, "load[1].cancel[1].share"),
        (22, 6, "fault[0].do"),
        (23, 18, "fault[0].when.after"),
        (23, 46, "fault[0].when.probability"),
        (24, 30, "fault[0].expect.outcomes[1]"),
        (27, 8, "check[0].that"),
        (28, 9, "check[0].where"),
    ]


def test_a_problem_shows_the_line_with_a_caret_and_what_to_write() -> None:
    text = SOUND + '\n[[fault]]\nid = "a"\ndo = "kv.take: oom"\nplace = "befor"\n'
    with pytest.raises(ScenarioProblems) as found:
        read_text(text, "my-soak.toml")
    assert found.value.render() == (
        'my-soak.toml:10:9  fault[0].place: one of "before", "after", "in_flight"\n'
        '   10 | place = "befor"\n'
        '      |         ^^^^^^^ did you mean "before"?\n'
        "1 problem; nothing was started"
    )


def test_more_than_six_problems_end_in_one_line_each() -> None:
    with pytest.raises(ScenarioProblems) as found:
        read_text(MANY, "many.toml")
    lines = found.value.render().splitlines()
    assert lines[18:20] == ["10 more:", "  15:3 load[1].users (add users = 8)"]
    assert lines[-1] == "16 problems; nothing was started"


def test_a_long_line_is_cut_round_what_is_underlined() -> None:
    padding = 'prompt_tokens = [1, 2], output_tokens = [1, 2], shared_prefix = 0.1, timeout = "5s", in_flight_max = 5'
    text = SOUND.replace('rate = "2/s"', f'{padding}, rate = "2/m", malformed = 0.1, group = "default", stream = 1.0')
    with pytest.raises(ScenarioProblems) as found:
        read_text(text)
    _, line, caret, _ = found.value.render().splitlines()
    assert len(line) <= WIDTH_MAX
    assert line[caret.index("^") : caret.rindex("^") + 1] == '"2/m"'


def test_an_unknown_key_suggests_and_takes_the_place_of_the_missing_one() -> None:
    [problem] = problems_of(SOUND.replace("means", "meens"))
    assert (problem.key, problem.remedy, problem.given) == ("meens", 'did you mean "means"?', "")


def test_an_unknown_key_without_a_like_lists_what_is_known() -> None:
    [problem] = problems_of(SOUND + "[canary]\nzzz = 1\n")
    assert problem.remedy == "known: every, reference, compared_min"


@pytest.mark.parametrize(
    ("broken", "line", "col", "remedy"),
    [
        ('name = "x\n', 1, 10, ""),
        ("trial = 60s\n", 1, 11, ""),
        ("trial = s60\n", 1, 9, "write text and numbers with a unit in quotes"),
        ("target = {\n", 1, 11, "an inline table { } stays on one line"),
        ("a = { b = 1, }\n", 1, 14, "no comma before the }"),
        ("a = 1\na = 2\n", 2, 6, ""),
        ("[a\n", 1, 3, ""),
        ("a = [1,\n", 2, 1, ""),
    ],
)
def test_a_syntax_error_has_its_line_and_column(broken: str, line: int, col: int, remedy: str) -> None:
    [problem] = problems_of(broken)
    assert (problem.line, problem.col) == (line, col), str(problem)
    assert problem.rule.startswith("TOML: ")
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    "wrong",
    [
        "schema = 2",
        'schema = "1"',
        "seed = -1",
        "seed = 1.5",
        "seed = true",
        "load = []",
        "load = 5",
        "load = [5]",
        "load = { id = 'a' }",
        "canary = []",
        "target = { knobs = { a = [1] } }",
        "target = { command = 'serve' }",
        "fault = [[]]",
        "phases = 'long'",
        "phases = { trial = [] }",
        "phases = { trial = { completed = 0 } }",
        "phases = { trial = '0s' }",
        "phases = { trial = '1s', quiesce = { max = '1s' } }",
        "name = 'A B'",
        "name = ''",
        "abort = ['errors > 1%']",
        "abort = 'errors > 1% for 5s'",
        "means = 1979-05-27",
        "limits = { disk = '4GB' }",
        "limits = { rate = '0/s' }",
    ],
)
def test_a_wrong_value_is_one_problem_at_its_own_line(wrong: str) -> None:
    key = wrong.split(" ")[0]
    kept = "".join(line for line in SOUND.splitlines(True) if not line.startswith(f"{key} "))
    problems = problems_of(kept + wrong + "\n")
    assert len(problems) == 1, [str(problem) for problem in problems]
    assert problems[0].line == len(kept.splitlines()) + 1
    assert problems[0].key.startswith(key)
    assert problems[0].rule
    assert "Input should" not in problems[0].rule, "a rule in pydantic's words"


def test_a_required_key_that_is_missing_is_named_with_an_example() -> None:
    problems = {problem.key: problem.remedy for problem in problems_of("")}
    assert problems == {
        "schema": "add schema = 1",
        "name": 'add name = "my-trial"',
        "means": 'add means = "what a FAIL would mean"',
        "phases": 'add phases = { trial = "60s" }',
        "load": 'add [[load]] with id = "chat" and rate = "2/s"',
    }


def test_no_control_character_of_the_file_reaches_the_terminal() -> None:
    text = SOUND.replace("sound", "so\\u001b[31mund") + '\nx = "\u202e\x1b"\n'
    with pytest.raises(ScenarioProblems) as found:
        read_text(text)
    assert not set(found.value.render()) & {"\x1b", "\u202e", "\r", "\x00"}


def test_windows_line_ends_and_a_byte_order_mark_do_not_move_the_place(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_bytes(b"\xef\xbb\xbf" + SOUND.replace("2/s", "2/m").replace("\n", "\r\n").encode())
    with pytest.raises(ScenarioProblems) as found:
        read(file)
    [problem] = found.value.problems
    assert (problem.path, problem.line, problem.col) == (str(file), 5, 31)


def test_a_file_that_cannot_be_read_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(ScenarioProblems, match="cannot read the scenario: no such file"):
        read(tmp_path / "absent.toml")
    with pytest.raises(ScenarioProblems, match="cannot read the scenario: is a directory"):
        read(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'schema = 1\nname = "\xe9"\n')
    with pytest.raises(ScenarioProblems, match=r"latin.toml:2:9  this byte is no UTF-8"):
        read(tmp_path / "latin.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ScenarioProblems, match="TOML"):
        read(tmp_path / "deep.toml")


def test_a_missing_trace_is_refused_with_the_paths_it_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, data = tmp_path / "here", tmp_path / "data"
    for folder in (here, data):
        folder.mkdir()
    monkeypatch.chdir(here)
    file = tmp_path / "s.toml"
    file.write_text(SOUND.replace('rate = "2/s"', 'arrivals = "trace", trace = { file = "t.csv" }'))
    with pytest.raises(ScenarioProblems) as found:
        read(file, environ={"SEATRIAL_DATA": str(data)})
    [problem] = found.value.problems
    assert (problem.line, problem.key) == (5, "load[0].trace.file")
    assert problem.rule == f"no such trace; looked for {tmp_path}/t.csv, {here}/t.csv, {data}/t.csv"

    row = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n"
    for folder in (data, here, tmp_path):  # the later ones win
        (folder / "t.csv").write_text(row)
        trace = read(file, environ={"SEATRIAL_DATA": str(data)}).load[0].trace
        assert trace is not None
        assert trace.file == str(folder / "t.csv")

    (tmp_path / "t.csv").write_text("time,tokens\n1,2\n")
    with pytest.raises(ScenarioProblems, match="not a trace we read"):
        read(file, environ={})


def test_a_document_points_at_what_a_later_part_refuses(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('drive = "virtual"\n' + SOUND)
    document = read_document(file)
    problem = document.source.problem(("drive",), "not served yet", "wait")
    assert str(problem) == f'{file}:1:9 drive = "virtual": not served yet; wait'


@given(toml_documents())
def test_any_toml_is_a_scenario_or_problems_with_places(text: str) -> None:
    for problem in problems_of(text):
        assert problem.line >= 1
        assert problem.rule


_WORDS = 'load fault rate when at id 2/s 60s chat [ ] { } " = , . # 1 -'
_PIECES = st.sampled_from([*_WORDS.split(), "\n"])


@given(st.data())
def test_a_damaged_scenario_never_breaks_the_reader(data: st.DataObject) -> None:
    text = MANY if data.draw(st.booleans()) else SOUND
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = text[:at] + "".join(data.draw(st.lists(_PIECES, max_size=3))) + text[at + cut :]
    for problem in problems_of(text):
        assert problem.render()
        assert problem.summary_line()
