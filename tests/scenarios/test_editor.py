"""The JSON Schema for editors is current, and agrees with the reader on single values."""

import tomllib

import jsonschema
import pytest

from scenarios import editor, library
from tests.scenarios.documents import SOUND
from tests.scenarios.test_schema import FULL

VALIDATOR = jsonschema.Draft202012Validator(editor.json_schema())


def test_the_committed_schema_is_current() -> None:
    assert editor.FILE.read_text(encoding="utf-8") == editor.text(), "run: python -m scenarios.editor"


@pytest.mark.parametrize("name", library.names())
def test_an_editor_finds_nothing_in_a_library_scenario(name: str) -> None:
    document = tomllib.loads(library.find(name).read_text(encoding="utf-8"))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize("text", [SOUND, FULL])
def test_an_editor_finds_nothing_in_a_sound_scenario(text: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))] == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"60s"', "60"),
        ('"60s"', '"60"'),
        ('"2/s"', "2"),
        ("schema = 1", "schema = 2"),
        ("name =", "nmae ="),
        ('id = "chat"', 'id = "chat", arrivals = "sometimes"'),
        ('id = "chat"', 'id = "chat", cancel = [{ share = 2 }]'),
        ('id = "chat"', 'id = "chat", cancel = [{ share = 0.5, at = "token" }]'),
        ('id = "chat"', 'id = "chat", prompt_tokens = "many"'),
    ],
)
def test_an_editor_marks_what_the_reader_refuses(right: str, wrong: str) -> None:
    assert right in SOUND
    assert list(VALIDATOR.iter_errors(tomllib.loads(SOUND.replace(right, wrong))))


def test_defaults_are_shown_as_one_writes_them() -> None:
    tables = editor.json_schema()["$defs"]
    assert tables["Load"]["properties"]["timeout"]["default"] == "60s"
    assert tables["Limits"]["properties"]["disk"]["default"] == "4GiB"
    assert tables["When"]["properties"]["for"]["type"] == "string"
    assert "null" not in editor.text()
