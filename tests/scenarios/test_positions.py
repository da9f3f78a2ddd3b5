"""The scanner against tomllib, on documents written in every way TOML allows."""

import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given

from scenarios.positions import Path, locate
from tests.scenarios.documents import toml_documents


def paths_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*path, step), inner
        yield from paths_of(inner, (*path, step))


@given(toml_documents())
def test_the_scanner_finds_the_paths_that_tomllib_reads_and_no_other(text: str) -> None:
    assert set(locate(text)) == {path for path, _ in paths_of(tomllib.loads(text))}


@given(toml_documents())
def test_each_values_text_reads_as_that_value(text: str) -> None:
    spots = locate(text)
    for path, value in paths_of(tomllib.loads(text)):
        span = spots[path].value
        written = text[span.start : span.end]
        if not isinstance(value, dict | list) or written[0] in "[{":
            assert tomllib.loads(f"x = {written}")["x"] == value


@given(toml_documents())
def test_each_keys_text_reads_as_that_key(text: str) -> None:
    for path, spot in locate(text).items():
        if isinstance(path[-1], str):
            written = text[spot.key.start : spot.key.end]
            assert tomllib.loads(f"{written} = 0") == {path[-1]: 0}


def test_a_table_under_a_list_of_tables_belongs_to_the_last_one() -> None:
    spots = locate("[[load]]\nid = 1\n[load.trace]\nfile = 2\n[[load]]\n[load.trace]\nfile = 3\n")
    assert ("load", 0, "trace", "file") in spots
    assert ("load", 1, "trace", "file") in spots
    assert ("load", 1, "id") not in spots


def test_quotes_before_the_closing_three_are_part_of_the_string() -> None:
    text = 'a = """x"""""\nb = 1\n'
    span = locate(text)[("a",)].value
    assert text[span.start : span.end] == '"""x"""""'
    assert ("b",) in locate(text)
