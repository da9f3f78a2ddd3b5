"""Plants bugs in the server of a real trial; Python runs this file by itself when its folder is on PYTHONPATH.

    SEATRIAL_PLANTED=name,name  ->  tests/planted/bugs/name.py: MODULE, and plant(module)
    command, load, reference, supervisor     untouched, but by a bug that says EVERYWHERE = True
    python -m runtime.server.main            MODULE is imported as usual, then plant(module) changes it

The runtime has no hook for this and knows nothing of it. What was planted is said on stderr, which is `server.log`:
a bug that was never planted must not be taken for one that was not caught.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

BUGS = Path(__file__).resolve().parent.parent / "bugs"
SERVER = "runtime.server.main"


def bug_of(name: str) -> ModuleType:
    """The bug of that name, by its file: `bugs` is no package that a server could import by chance."""
    spec = importlib.util.spec_from_file_location(f"planted_{name}", BUGS / f"{name}.py")
    assert spec is not None and spec.loader is not None, f"no bug {name} in {BUGS}"
    bug = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bug)
    return bug


class Planter(importlib.abc.MetaPathFinder):
    """Waits for one module to be imported."""

    def __init__(self, name: str, bug: ModuleType) -> None:
        self._name = name
        self._bug = bug

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._bug.MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None, f"the bug {self._name} wants {name}, which is not there"
        execute = spec.loader.exec_module

        def execute_and_plant(module: ModuleType) -> None:
            execute(module)
            self._bug.plant(module)
            print(f"planted: {self._name} in {name}", file=sys.stderr, flush=True)

        spec.loader.exec_module = execute_and_plant  # type: ignore[method-assign]
        return spec


def wanted() -> list[tuple[str, ModuleType]]:
    """The bugs of this process and their names: most belong into the server alone."""
    names = [name for name in os.environ.get("SEATRIAL_PLANTED", "").split(",") if name]
    if SERVER not in sys.orig_argv:
        files = {name: BUGS / f"{name}.py" for name in names}
        names = [name for name, file in files.items() if file.is_file() and "EVERYWHERE = True" in file.read_text()]
    return [(name, bug_of(name)) for name in names]


sys.meta_path[:0] = [Planter(name, bug) for name, bug in wanted()]
