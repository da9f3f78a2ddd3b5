"""The command-line options that `run` and `plan` share, declared once.

    @app.command()
    @takes_run_options
    def plan(options: RunOptions, as_json: AsJson = False) -> int: ...

The decorator adds the shared options to the command and passes their values as one RunOptions.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import wraps
from typing import Annotated, Any

import typer

from harness.exits import Refusal
from harness.options import RunOptions

Seed = Annotated[int | None, typer.Option(help="Seed of every random draw in the run.", metavar="N")]
SHARED: dict[str, Any] = {
    "scenario": Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of a library scenario.")
    ],
    "seed": Seed,
    "target": Annotated[
        str | None, typer.Option(help="Test this running server instead of the scenario's target.", metavar="URL")
    ],
    "model": Annotated[
        str | None,
        typer.Option(help="Model name in the requests; for the built-in runtime, a model directory.", metavar="NAME"),
    ],
    "minutes": Annotated[
        float | None, typer.Option(help="Length of the trial phase, instead of the scenario's.", metavar="M")
    ],
    "metrics": Annotated[
        str | None,
        typer.Option(
            help="The target's Prometheus page. Default: detected for a target on this machine.", metavar="URL"
        ),
    ],
    "pid": Annotated[
        int | None,
        typer.Option(help="The target's process id. Default: detected for a target on this machine.", metavar="N"),
    ],
    "virtual": Annotated[
        bool, typer.Option("--virtual", help="Run in virtual time on a simulated device, without a server process.")
    ],
    "costs": Annotated[
        str | None,
        typer.Option(
            help="Launch costs of a virtual run: a built-in table, or a file written by `seatrial calibrate`.",
            metavar="FILE|NAME",
        ),
    ],
}
"""The options by the name of their field in RunOptions, which also has their defaults."""


@contextmanager
def refused() -> Iterator[None]:
    """Turn invalid options into a Refusal, which is reported without a traceback."""
    try:
        yield
    except ValueError as problem:
        raise Refusal(str(problem)) from None


def takes_run_options(command: Callable[..., int]) -> Callable[..., int]:
    """Replace the command's first parameter, a RunOptions, by the shared options; its own options follow them.

    The command raises Refusal for an invalid value.
    """
    empty = inspect.Parameter.empty
    defaults = {each.name: empty if each.default is MISSING else each.default for each in fields(RunOptions)}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shared = [inspect.Parameter(name, kind, default=defaults[name], annotation=taken) for name, taken in SHARED.items()]
    own = list(inspect.signature(command).parameters.values())[1:]

    @wraps(command)
    def typed(**given: Any) -> int:
        with refused():
            options = RunOptions(**{name: given.pop(name) for name in SHARED})
        return command(options, **given)

    # Typer reads the signature and the annotations, and must not look through the wrapper.
    del typed.__dict__["__wrapped__"]
    typed.__dict__["__signature__"] = inspect.Signature([*shared, *own])
    typed.__annotations__ = {each.name: each.annotation for each in (*shared, *own)} | {"return": int}
    return typed
