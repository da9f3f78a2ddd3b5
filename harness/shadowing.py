"""Detect other packages that Python would import instead of seatrial's packages, such as another `runtime`.

The import names of seatrial are common words, so the check runs when the command starts. It runs again when the
command ends, because an import in between may have found the wrong package.
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
    """A package of seatrial that Python imports from another folder."""

    package: str
    found: Path

    def __str__(self) -> str:
        return (
            f"`import {self.package}` finds {self.found}, not seatrial's {HOME / self.package}.\n"
            f"  Python searches {self.found.parent} first. Cure: run seatrial in an environment of its own\n"
            f"  (pipx install seatrial), or from another folder and without that folder on PYTHONPATH. To test your\n"
            f'  own runtime, start it as a separate process: target = {{ kind = "command" }} or --target URL.'
        )


def shadows(
    home: Path = HOME, modules: Mapping[str, ModuleType] = sys.modules, search: Sequence[str] | None = None
) -> list[Shadow]:
    """The packages of seatrial that are or would be imported from another folder. `search`: None means sys.path."""
    found = []
    for package in PACKAGES:
        place = _place(package, modules, search)
        if place is not None and place.resolve() != home / package:
            found.append(Shadow(package, place))
    return found


def _place(package: str, modules: Mapping[str, ModuleType], search: Sequence[str] | None) -> Path | None:
    """The folder from which a package was or would be imported. None when it is not found: its import then fails."""
    module = modules.get(package)
    if module is not None:
        if getattr(module, "__file__", None):
            return Path(str(module.__file__)).parent
        paths = list(getattr(module, "__path__", []))
        return Path(paths[0]) if paths else None
    # PathFinder only. Other finders, such as that of an editable install, act at import: the second check sees them.
    spec = PathFinder.find_spec(package, search)
    if spec is None:
        return None
    if spec.origin:
        return Path(spec.origin).parent
    folders = list(spec.submodule_search_locations or [])
    return Path(folders[0]) if folders else None
