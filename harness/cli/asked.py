"""The options by which `run` and `plan` are told the same things, written once.

    @app.command()
    @takes_asked
    def plan(asked: RunOptions, as_json: AsJson = False) -> int: ...

gives `plan` the options of `asked`, and before it runs, what was typed as one RunOptions.
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
Seed = Annotated[int | None, typer.Option(help="Every draw of the run follows from it.", metavar="N")]
Target = Annotated[
    str | None, typer.Option(help="A server that runs already, instead of the scenario's.", metavar="URL")
]
Model = Annotated[str | None, typer.Option(help="Model name of the requests; a directory for the built-in runtime.")]
Minutes = Annotated[float | None, typer.Option(help="Length of the trial, instead of the scenario's.", metavar="M")]
Metrics = Annotated[
    str | None, typer.Option(help="The target's Prometheus page; on this machine it is looked for.", metavar="URL")
]
Pid = Annotated[int | None, typer.Option(help="The target's process; on this machine it is looked for.", metavar="N")]
Virtual = Annotated[
    bool, typer.Option("--virtual", help="In virtual time: a simulated device, no server, no load process.")
]
Costs = Annotated[
    str | None,
    typer.Option(help="Virtual: what launches cost, a table of ours or of `seatrial calibrate`.", metavar="FILE|NAME"),
]


def asked(
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
    """The options that were typed. Raises Refusal."""
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


def takes_asked(command: Callable[..., int]) -> Callable[..., int]:
    """A command whose first parameter, `asked`, is made of the options above; they come before its own."""
    shared = list(inspect.signature(asked).parameters.values())
    own = list(inspect.signature(command).parameters.values())[1:]
    names = [each.name for each in shared]

    @wraps(command)
    def typed(**given: Any) -> int:
        return command(asked(**{name: given.pop(name) for name in names}), **given)

    # The command-line library asks for both, and must not look through the wrapper.
    del typed.__dict__["__wrapped__"]
    typed.__dict__["__signature__"] = inspect.Signature([*shared, *own])
    typed.__annotations__ = {each.name: each.annotation for each in (*shared, *own)} | {"return": int}
    return typed
