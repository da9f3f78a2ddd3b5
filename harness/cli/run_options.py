"""The command-line options that `run` and `plan` share, declared once.

    @app.command()
    @takes_run_options
    def plan(options: RunOptions, as_json: AsJson = False) -> int: ...

The decorator adds the shared options to the command and passes their values as one RunOptions.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.options import RunOptions

ScenarioName = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of a library scenario.")
]
Seed = Annotated[int | None, typer.Option(help="Seed of every random draw in the run.", metavar="N")]
Target = Annotated[
    str | None, typer.Option(help="Test this running server instead of the scenario's target.", metavar="URL")
]
Model = Annotated[
    str | None,
    typer.Option(help="Model name in the requests; for the built-in runtime, a model directory.", metavar="NAME"),
]
Minutes = Annotated[
    float | None, typer.Option(help="Length of the trial phase, instead of the scenario's.", metavar="M")
]
Metrics = Annotated[
    str | None,
    typer.Option(help="The target's Prometheus page. Default: detected for a target on this machine.", metavar="URL"),
]
Pid = Annotated[
    int | None,
    typer.Option(help="The target's process id. Default: detected for a target on this machine.", metavar="N"),
]
Virtual = Annotated[
    bool, typer.Option("--virtual", help="Run in virtual time on a simulated device, without a server process.")
]
Costs = Annotated[
    str | None,
    typer.Option(
        help="Launch costs of a virtual run: a built-in table, or a file written by `seatrial calibrate`.",
        metavar="FILE|NAME",
    ),
]


def typed_options(
    scenario: ScenarioName,
    seed: Seed = None,
    target: Target = None,
    model: Model = None,
    minutes: Minutes = None,
    metrics: Metrics = None,
    pid: Pid = None,
    virtual: Virtual = False,
    costs: Costs = None,
) -> "RunOptions":
    """Check the shared options and return them as one record. Raises Refusal for an invalid value."""
    from harness.options import RunOptions

    with refused():
        return RunOptions(
            scenario,
            seed=seed,
            target=target,
            model=model,
            minutes=minutes,
            metrics=metrics,
            pid=pid,
            virtual=virtual,
            costs=costs,
        )


@contextmanager
def refused() -> Iterator[None]:
    """Turn invalid options into a Refusal, which is reported without a traceback."""
    from harness.exits import Refusal

    try:
        yield
    except ValueError as problem:
        raise Refusal(str(problem)) from None


def takes_run_options(command: Callable[..., int]) -> Callable[..., int]:
    """Replace the command's first parameter, a RunOptions, by the shared options; its own options follow them."""
    shared = list(inspect.signature(typed_options).parameters.values())
    own = list(inspect.signature(command).parameters.values())[1:]
    names = [each.name for each in shared]

    @wraps(command)
    def typed(**given: Any) -> int:
        return command(typed_options(**{name: given.pop(name) for name in names}), **given)

    # Typer reads the signature and the annotations, and must not look through the wrapper.
    del typed.__dict__["__wrapped__"]
    typed.__dict__["__signature__"] = inspect.Signature([*shared, *own])
    typed.__annotations__ = {each.name: each.annotation for each in (*shared, *own)} | {"return": int}
    return typed
