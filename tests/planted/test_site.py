"""What plants the bugs is itself tried: it must touch the server and nothing else, and say what it did."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planted.live import HERE, SITE
from tests.planted.site.sitecustomize import BUGS, bug_of

NAMES = sorted(path.stem for path in BUGS.glob("*.py"))


def python(*argv: str, planted: str = "kept_on_cancel") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(SITE), str(HERE.parent.parent)])
    env = {**os.environ, "PYTHONPATH": path, "SEATRIAL_PLANTED": planted}
    return subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", NAMES)
def test_every_bug_names_the_real_one_that_it_models_and_is_tried_alive(name: str) -> None:
    bug = bug_of(name)
    assert re.search(r"\b(Z\d+|M\d+) \(.+", bug.__doc__ or "")
    assert bug.MODULE.startswith("runtime.")
    assert any(f'"{name}"' in path.read_text() for path in HERE.glob("test_*.py")), "no live trial plants it"


PLANT = """
import importlib, sys
from tests.planted.site.sitecustomize import bug_of

def names(module):
    found = {(module.__name__, name) for name in vars(module)}
    classes = [one for one in vars(module).values() if isinstance(one, type)]
    return found | {(one.__qualname__, name) for one in classes for name in vars(one)}

for name in sys.argv[1:]:
    bug = bug_of(name)
    module = importlib.import_module(bug.MODULE)
    before = names(module)
    bug.plant(module)
    print(name, *sorted(names(module) - before))
"""


def test_every_bug_replaces_what_is_there_under_its_name() -> None:
    planted = python("-c", PLANT, *NAMES)
    assert (planted.returncode, planted.stdout.split()) == (0, NAMES), planted.stderr + planted.stdout


def test_other_processes_are_left_alone() -> None:
    seen = python("-c", "import runtime.engine as e; print(e.Engine._cancel.__module__)")
    assert (seen.stdout.strip(), seen.stderr) == ("runtime.engine.engine", "")


def test_the_server_is_planted_and_says_so(tmp_path: Path) -> None:
    fake = tmp_path / "child.py"
    fake.write_text("import runtime.engine as e; print(e.Engine._cancel.__module__)")
    seen = python(str(fake), "runtime.server.main")
    assert seen.stdout.strip() == "planted_kept_on_cancel"
    assert seen.stderr.strip() == "planted: kept_on_cancel in runtime.engine.engine"


def test_two_bugs_of_one_module_are_both_planted(tmp_path: Path) -> None:
    fake = tmp_path / "child.py"
    fake.write_text("import runtime.engine as e; print(e.Engine._cancel.__module__, e.Engine._guard.__module__)")
    seen = python(str(fake), "runtime.server.main", planted="kept_on_cancel,deadline_sleeps")
    assert seen.stdout.split() == ["planted_kept_on_cancel", "planted_deadline_sleeps"]
    assert len(seen.stderr.splitlines()) == 2


def test_without_a_name_nothing_is_planted(tmp_path: Path) -> None:
    fake = tmp_path / "child.py"
    fake.write_text("import runtime.engine as e; print(e.Engine._cancel.__module__)")
    assert python(str(fake), "runtime.server.main", planted="").stdout.strip() == "runtime.engine.engine"


def test_a_name_that_is_no_bug_is_said_on_the_servers_log(tmp_path: Path) -> None:
    fake = tmp_path / "child.py"
    fake.write_text("print('served')")
    seen = python(str(fake), "runtime.server.main", planted="no_such_bug")
    assert "no_such_bug.py" in seen.stderr
