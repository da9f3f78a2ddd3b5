"""`run` and `plan` are told the same things by the same words."""

import inspect

import pytest
import typer.main

from harness.cli.app import app
from harness.cli.run_options import SHARED, takes_run_options
from harness.exits import Refusal
from harness.options import RunOptions


def options_of(command: str) -> dict[str, tuple[object, ...]]:
    found = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    return {each.name: (each.opts, each.metavar, getattr(each, "help", None), each.default) for each in found.params}


def test_what_both_have_is_the_same_in_words_and_defaults() -> None:
    run, plan = options_of("run"), options_of("plan")
    assert {name: run[name] for name in SHARED} == {name: plan[name] for name in SHARED}
    assert set(plan) - set(SHARED) == {"as_json"}
    assert set(run) - set(SHARED) == {"allow_host", "undeclared", "runs_dir", "report_only"}


def test_a_command_gets_what_was_typed_as_one_record_and_keeps_its_own_options() -> None:
    @takes_run_options
    def command(options: RunOptions, loud: bool = False) -> int:
        assert options == RunOptions("clean", seed=3, minutes=2.0, virtual=True, costs="cpu-default")
        return 7 if loud else 0

    typed = dict.fromkeys(SHARED) | {
        "scenario": "clean",
        "seed": 3,
        "minutes": 2.0,
    }
    assert command(**typed | {"virtual": True, "costs": "cpu-default"}, loud=True) == 7
    assert list(inspect.signature(command).parameters)[-1] == "loud"


def test_what_can_not_be_is_refused_in_the_words_that_were_typed() -> None:
    @takes_run_options
    def command(options: RunOptions) -> int:
        raise AssertionError(options)

    with pytest.raises(Refusal, match="--minutes -1: give more than 0"):
        command(**dict.fromkeys(SHARED) | {"scenario": "clean", "minutes": -1})
