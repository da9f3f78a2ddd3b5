import subprocess
import sys
from pathlib import Path

import pytest

import seatrial


def test_public_names_are_exactly_those_listed_and_all_can_be_had():
    assert seatrial.__all__ == ["Outcome", "Run", "RunOptions", "run"]
    for name in seatrial.__all__:
        assert getattr(seatrial, name) is not None
    with pytest.raises(AttributeError, match="seatrial has no 'trial'"):
        _ = seatrial.trial


def test_strangers_harness_is_named_with_the_cure_before_any_of_it_runs(tmp_path: Path):
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("raise RuntimeError('a stranger ran')\n")
    root = Path(seatrial.__file__).parent
    code = f"import sys; sys.path.append({str(root)!r}); import seatrial; sys.exit(seatrial.main())"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 3, done.stderr
    assert str(tmp_path / "harness") in done.stderr
    assert "pipx install seatrial" in done.stderr


def test_importing_the_public_face_loads_nothing_heavy():
    heavy = ("torch", "locust", "scipy", "harness.run")
    code = f"import sys, seatrial; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
