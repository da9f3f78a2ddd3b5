"""Settings for every test: one torch thread a worker, Hypothesis profiles without a clock in them, steps counted.

ci       the default, everywhere: examples follow from the tests alone, so that a run that fails is about the change
         in hand, and who repeats it sees the same. What is new comes from the nights and from each change of a test.
nightly  other examples each time and twenty times as many. The seed is in the header: --hypothesis-seed repeats it.
dev      other examples each time, and failures are kept in .hypothesis; for whoever looks for bugs by hand.
"""

import os
import random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: two workers with two threads each fight for two cores
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.steps_report import StepsReport

# No deadline and no "too slow": how long an example takes says more about the machine than about us.
timeless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", timeless, derandomize=True, database=None)
# Said for each: where CI is set in the environment, Hypothesis starts from other defaults.
settings.register_profile("nightly", timeless, derandomize=False, max_examples=2000, database=None)
settings.register_profile(
    "dev", timeless, derandomize=False, database=DirectoryBasedExampleDatabase(".hypothesis/examples")
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before the plugin of Hypothesis reads its seed."""
    config.pluginmanager.register(StepsReport())
    profile = config.getoption("--hypothesis-profile") or settings.get_current_profile_name()
    if settings.get_profile(profile).derandomize:
        no_numbers_from_loaded_modules()
        same_hashes_on_workers(config)
    elif config.option.hypothesis_seed is None:
        drawn = str(random.SystemRandom().randrange(2**32))
        config.option.hypothesis_seed = getattr(config, "workerinput", {}).get("hypothesis_seed", drawn)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """All workers have the seed of the controller."""
    node.workerinput["hypothesis_seed"] = node.config.option.hypothesis_seed


def pytest_report_header(config: pytest.Config) -> str | None:
    """How to see the same examples again."""
    seed = config.option.hypothesis_seed
    return None if seed is None else f"hypothesis: the same examples again with --hypothesis-seed={seed}"


def no_numbers_from_loaded_modules() -> None:
    """Hypothesis also tries constants of our own modules, of all that happen to be loaded by then. Which those are
    depends on the files chosen and on what a worker ran before: a test alone would not see what it saw in the suite."""
    providers._get_local_constants = Constants


def same_hashes_on_workers(config: pytest.Config) -> None:
    """Hypothesis orders some of its choices by hashes of strings. Workers start with the same ones; what our tests
    start has other ones each time, as everywhere else. Without workers it is up to who starts pytest."""
    if hasattr(config, "workerinput"):
        if os.environ.get("PYTHONHASHSEED") == "0":
            del os.environ["PYTHONHASHSEED"]
    elif getattr(config.option, "tx", None):
        os.environ.setdefault("PYTHONHASHSEED", "0")
