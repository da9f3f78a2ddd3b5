import io

import pytest
import typer

from harness.exits import Exit, Interrupted, Refusal, Trouble, guarded
from scenarios.problems import Problem, ScenarioProblems


def outcome(error: BaseException) -> tuple[int, str]:
    def work() -> int:
        raise error

    err = io.StringIO()
    return guarded(work, err), err.getvalue()


@pytest.mark.parametrize("code", list(Exit))
def test_a_command_decides_its_code(code: Exit) -> None:
    assert guarded(lambda: code, io.StringIO()) == code


@pytest.mark.parametrize("foreign", [70, 137, -9, 5, None, "0"])
def test_a_code_that_is_not_in_the_table_becomes_our_own_error(foreign: object) -> None:
    assert guarded(lambda: foreign, io.StringIO()) == Exit.OURS  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refusal("give a name"), Exit.USAGE),
        (ScenarioProblems([Problem("a.toml", 1, 1, "seed", "x", "not a number", "give a number")]), Exit.USAGE),
        (Trouble("disk is full"), Exit.OURS),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (Interrupted(), Exit.INTERRUPTED),
        (typer.Abort(), Exit.INTERRUPTED),
        (SystemExit(4), Exit.USAGE),
        (SystemExit(None), Exit.PASS),
        (SystemExit("words"), Exit.OURS),
        (ImportError("no module"), Exit.OURS),
        (RuntimeError("bug"), Exit.OURS),
        (MemoryError(), Exit.OURS),
    ],
)
def test_whatever_leaves_a_command_has_its_code(error: BaseException, code: Exit) -> None:
    assert outcome(error)[0] == code


def test_a_mistake_of_the_user_is_never_a_traceback() -> None:
    code, said = outcome(Refusal("no run 'x'; give a run id"))
    assert said == "seatrial: no run 'x'; give a run id\n"
    assert code == Exit.USAGE


def test_an_error_of_ours_is_short_and_names_the_file_with_the_traceback(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, said = outcome(RuntimeError("first line\nsecond line"))
    path = said.split("details: ")[1].strip()
    assert code == Exit.OURS
    assert said.startswith("seatrial: internal error of seatrial, not of your server: RuntimeError: first line\n")
    assert "Traceback" not in said
    with open(path, encoding="utf-8") as written:
        assert "Traceback" in written.read()


def test_a_full_disk_does_not_hide_the_error_that_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> tuple[int, str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    code, said = outcome(RuntimeError("bug"))
    assert code == Exit.OURS
    assert "No space left" in said
    assert "RuntimeError: bug" in said.split("Traceback")[1]
