from pathlib import Path

import pytest

from harness.report import model
from harness.report.model import Report
from tests.harness.report.story import Story
from tests.harness.report.synthetic import write


@pytest.fixture(scope="session")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four minutes that failed, with replies that mean harm."""
    return write(tmp_path_factory.mktemp("runs") / "failed", Story(minutes=4))


@pytest.fixture(scope="session")
def failed(failed_run: Path) -> Report:
    return model.read(failed_run)
