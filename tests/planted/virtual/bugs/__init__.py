"""Bugs of the field, one file each: what the real one was, and how it is modelled in our runtime.

    M3_duplicates_freed.py  ->  SCENARIO, JUDGE, plant(patch)

They are planted in this process and only inside a `with`; the runtime has no hook for them.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Bug:
    """`judge` must say FAIL on `scenario` while it is planted."""

    id: str
    name: str
    scenario: str
    judge: str
    plant: Callable[[pytest.MonkeyPatch], None]


def _bug(stem: str) -> Bug:
    module = importlib.import_module(f"{__name__}.{stem}")
    number, _, name = stem.partition("_")
    return Bug(number.upper(), name.replace("_", " "), module.SCENARIO, module.JUDGE, module.plant)


BUGS = tuple(
    _bug(path.stem)
    for path in sorted(Path(__file__).parent.glob("m*_*.py"), key=lambda path: int(path.stem.partition("_")[0][1:]))
)
