"""`target.knobs` of the built-in runtime, sorted into what its server and what its engine reads."""

from typing import Any

from runtime.knobs import KnobProblems, read_knobs
from scenarios.target import Target

OF_THE_SERVER = ("request_timeout_s", "health_stall_s")


def server_tables(target: Target) -> dict[str, dict[str, Any]]:
    """The config of `python -m runtime.server`. Raises KnobProblems with everything that is wrong."""
    engine: dict[str, object] = {name: value for name, value in target.knobs.items() if name not in OF_THE_SERVER}
    server = {name: value for name, value in target.knobs.items() if name in OF_THE_SERVER}
    wrong = [name for name, value in server.items() if isinstance(value, bool | str) or value <= 0]
    if wrong:
        raise KnobProblems("; ".join(f"{name} = {server[name]!r}: give a number of seconds above 0" for name in wrong))
    if target.model is not None:
        engine["model"] = target.model
    return {"server": dict(server), "engine": read_knobs(engine).to_json()}
