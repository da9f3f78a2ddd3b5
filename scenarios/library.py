"""The scenarios that are shipped with seatrial, by name."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from scenarios.problems import Problem, ScenarioProblems

FOLDER: Final = Path(__file__).with_name("library")


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    path: Path
    means: str
    """The meaning of a FAIL, from the scenario."""


def find(name_or_path: str | Path) -> Path:
    """The file of a library scenario or of a user's scenario. Raises ScenarioProblems when it is neither.

    A name has no "/" and no ".toml"; everything else is a path.
    """
    given = str(name_or_path)
    shipped = FOLDER / f"{given}.toml"
    if "/" not in given and shipped.is_file():
        return shipped
    path = Path(name_or_path)
    try:
        if path.is_file():
            return path
        if path.is_dir():
            raise ScenarioProblems([Problem(given, 0, 0, "", "", "this is a folder", "give one TOML file of it")])
    except OSError as error:  # a folder of the path that we may not read
        reason = (error.strerror or str(error)).lower()
        raise ScenarioProblems([Problem(given, 0, 0, "", "", f"cannot look for the scenario: {reason}", "")]) from None
    close = get_close_matches(path.stem, names(), 1, 0.6)
    remedy = f'did you mean "{close[0]}"?' if close else f"a path, or one of: {', '.join(names())}"
    raise ScenarioProblems([Problem(given, 0, 0, "", "", "no such file, and no scenario of this name", remedy)])


def names() -> list[str]:
    """The sorted names of the library's scenarios."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def entries() -> Iterator[Entry]:
    """The library's scenarios with their meaning. Files are not checked, so that listing is quick."""
    for name in names():
        path = FOLDER / f"{name}.toml"
        yield Entry(name, path, str(tomllib.loads(path.read_text(encoding="utf-8"))["means"]))
