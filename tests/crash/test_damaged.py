"""Tensors damaged on a live server: one is mended, a step is refused with its batch, and the run passes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_damaged_tensors_end_their_batch_only_and_every_other_token_is_right(tmp_path: Path):
    done = subprocess.run(
        [str(Path(sys.executable).with_name("seatrial")), "run", str(Path(__file__).with_name("damaged.toml"))],
        env={**os.environ, "RUNS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout
    verdict = json.loads((tmp_path / "latest" / "verdict.json").read_text())
    states = {judge["name"]: judge["state"] for judge in verdict["judges"] if judge["level"] == "required"}
    assert states["fired"] == states["tokens"] == states["answered"] == states["reclamation"] == "PASS"
