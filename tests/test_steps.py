"""The count of steps: what is a step, that workers are added up, and that no machine is left out; and the profiles."""

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from tests.steps import CountedMachine, counting, machine_settings

pytest_plugins = ["pytester"]

PLUGINS = ("-p", "xdist.plugin", "-p", "_hypothesis_pytestplugin")
"""All that these need; those of other packages take seconds to load."""
CONFTEST = """
from tests.steps_report import StepsReport

def pytest_configure(config):
    config.pluginmanager.register(StepsReport())
"""
TWO_MACHINES = """
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.steps import CountedMachine, machine_settings

class Walker(CountedMachine):
    @initialize()
    def begin(self):
        self.walk(0)

    @rule(way=st.integers())
    def walk(self, way):
        with open(f"{type(self).__name__}.txt", "a") as file:
            print("one step", file=file)

class Talker(Walker):
    pass

TestWalker, TestTalker = Walker.TestCase, Talker.TestCase
TestWalker.settings = machine_settings(runs=8, steps=5)
TestTalker.settings = machine_settings(runs=3, steps=7)

def test_nothing():
    pass
"""


@pytest.fixture(autouse=True)
def only_the_plugins_we_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_runs_and_steps_of_all_workers_are_added_up(project: pytest.Pytester, workers: str):
    project.makepyfile(test_a=TWO_MACHINES)
    run = project.runpytest_inprocess if workers == "-n0" else project.runpytest_subprocess
    result = run(*PLUGINS, workers, "-q")
    assert result.ret == 0
    talked, walked = ((project.path / f"{name}.txt").read_text().count("step") for name in ("Talker", "Walker"))
    assert 3 <= talked <= 3 * 7 and 8 <= walked <= 8 * 5
    result.stdout.fnmatch_lines(
        [
            "*steps explored by stateful machines*",
            f"test_a.Talker * 3 runs * {talked} steps",
            f"test_a.Walker * 8 runs * {walked} steps",
            f"all           * 11 runs * {talked + walked} steps",
        ]
    )


def test_where_no_machine_ran_nothing_is_said(project: pytest.Pytester):
    project.makepyfile(test_a=TWO_MACHINES)
    result = project.runpytest_inprocess(*PLUGINS, "-q", "-k", "nothing")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*steps explored*")


def test_a_failing_rule_is_no_step_and_its_run_is_told_all_the_same(project: pytest.Pytester):
    project.makepyfile(
        test_a="""
        from hypothesis import Phase, settings
        from hypothesis.stateful import rule
        from tests.steps import CountedMachine

        class Falls(CountedMachine):
            @rule()
            def fall(self):
                raise RuntimeError("fell")

        TestFalls = Falls.TestCase
        TestFalls.settings = settings(max_examples=4, phases=[Phase.generate], report_multiple_bugs=False)
        """
    )
    result = project.runpytest_inprocess(*PLUGINS, "-q")
    assert result.ret == 1
    result.stdout.re_match_lines([r"test_a.Falls +\d runs +0 steps"])


def test_a_machine_that_nobody_counts_fails(project: pytest.Pytester):
    project.makepyfile(
        test_a="""
        from hypothesis.stateful import RuleBasedStateMachine, rule

        class Silent(RuleBasedStateMachine):
            @rule()
            def walk(self):
                pass

        TestSilent = Silent.TestCase
        """
    )
    result = project.runpytest_inprocess(*PLUGINS, "-q")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*Silent: nobody counts its steps; derive it from tests.steps.CountedMachine*"])


def test_what_a_dead_worker_had_counted_is_said_to_be_missing(project: pytest.Pytester):
    project.makepyfile(
        test_a=TWO_MACHINES,
        test_b="import os\n\ndef test_dies():\n    os._exit(1)\n",
    )
    result = project.runpytest_subprocess(*PLUGINS, "-n1", "-q", "--dist=load", "test_b.py", "test_a.py")
    result.stdout.fnmatch_lines(["all * steps, at least: a worker died"])


def test_a_profile_with_more_examples_gives_more_runs_in_proportion():
    assert machine_settings(60, 40).max_examples == 60 * (settings.default.max_examples // 100)
    before = settings.get_current_profile_name()
    settings.load_profile("nightly")
    try:
        assert machine_settings(60, 40).max_examples == 1200
        assert machine_settings(60, 40).stateful_step_count == 40
    finally:
        settings.load_profile(before)


def test_a_machine_outside_of_a_count_counts_nothing():
    class Idle(CountedMachine):
        @rule()
        def stay(self) -> None:
            pass

    Idle().a_step_is_counted()
    with counting(Idle) as explored:
        for _ in range(3):
            Idle().a_step_is_counted()
    Idle().a_step_is_counted()
    assert (explored.runs, explored.steps) == (3, 0)
    assert CountedMachine.explored is Idle.explored is None


def test_no_profile_has_a_clock_in_it_and_that_of_ci_no_chance():
    for name in ("ci", "nightly", "dev"):
        profile = settings.get_profile(name)
        assert profile.deadline is None
        assert "too_slow" in {check.name for check in profile.suppress_health_check}
        assert profile.print_blob
        assert profile.derandomize == (name == "ci")


DRAWN = """
import sys
from hypothesis import given, strategies as st

@given(st.integers())
def test_drawn(n):
    with open("drawn.txt", "a") as file:
        print(n, file=file)
"""


class Draws:
    """A project with our own conftest; what one of its tests drew, and the seed in the header."""

    def __init__(self, pytester: pytest.Pytester, conftest: str) -> None:
        pytester.makeconftest(conftest)
        pytester.makepyfile(test_b=DRAWN)
        self.pytester = pytester

    def __call__(self, *options: str) -> tuple[str, str]:
        result = self.pytester.runpytest_subprocess(*PLUGINS, "-p", "no:cacheprovider", *options)
        assert result.ret == 0
        path = self.pytester.path / "drawn.txt"
        text = path.read_text()
        path.unlink()
        seeds = [line.split()[-1] for line in result.outlines if "--hypothesis-seed=" in line]
        return text, "".join(seeds)


@pytest.fixture
def draws(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> Draws:
    return Draws(pytester, (request.config.rootpath / "tests" / "conftest.py").read_text())


def test_the_seed_of_a_random_profile_is_in_the_header_and_repeats_its_examples_on_workers_and_without(draws: Draws):
    once, seed = draws("--hypothesis-profile=dev", "-n1")
    assert seed.startswith("--hypothesis-seed=")
    assert draws("--hypothesis-profile=dev", seed, "-n0") == (once, seed)
    again, another = draws("--hypothesis-profile=dev", "-n0")
    assert (again == once, another == seed) == (False, False)


def test_in_ci_examples_are_the_same_alone_and_behind_a_test_that_loads_a_module_of_ours(draws: Draws):
    numbers = ", ".join(str(10**6 + n) for n in range(500))
    draws.pytester.makepyfile(ours=f"NUMBERS = [{numbers}]", test_a="import ours\n\ndef test_nothing():\n    pass\n")
    alone, seed = draws("test_b.py")
    assert (seed, alone.count("\n")) == ("", 100)
    assert draws("test_a.py", "test_b.py") == (alone, "")
