"""Is the `runtime` that Python found ours? A project with a package of that name would silently give one for the other.

Our import names are plain words, so this is checked when the command starts and again when it ends, because an import
in between may have found the wrong one.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

PACKAGES = ("assertions", "faults", "harness", "runtime", "scenarios")
HOME = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Shadow:
    """One of our packages that Python takes from somewhere else."""

    package: str
    found: Path

    def __str__(self) -> str:
        return (
            f"`import {self.package}` gives {self.found}, and not ours in {HOME / self.package}.\n"
            f"  Python looks into {self.found.parent} first. Cure: run seatrial in an environment of its own\n"
            f"  (pipx install seatrial), or from another folder and without that one on PYTHONPATH; a runtime of\n"
            f'  yours goes on trial from outside: target = {{ kind = "command" }} or --target URL.'
        )


def shadows(
    home: Path = HOME, modules: Mapping[str, ModuleType] = sys.modules, search: Sequence[str] | None = None
) -> list[Shadow]:
    """Our packages that are imported from elsewhere, or would be. `search` is the import path, by default Python's."""
    found = []
    for package in PACKAGES:
        place = _place(package, modules, search)
        if place is not None and place.resolve() != home / package:
            found.append(Shadow(package, place))
    return found


def _place(package: str, modules: Mapping[str, ModuleType], search: Sequence[str] | None) -> Path | None:
    """The folder a package was imported from or would be; None when there is none, which an import will say better."""
    module = modules.get(package)
    if module is not None:
        if getattr(module, "__file__", None):
            return Path(str(module.__file__)).parent
        paths = list(getattr(module, "__path__", []))
        return Path(paths[0]) if paths else None
    # The path finder only: other finders, such as an editable install's, are asked by importing: see the second check.
    spec = PathFinder.find_spec(package, search)
    if spec is None:
        return None
    if spec.origin:
        return Path(spec.origin).parent
    folders = list(spec.submodule_search_locations or [])
    return Path(folders[0]) if folders else None
