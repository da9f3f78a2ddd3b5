"""`target.knobs` of the built-in runtime, sorted into what its server and what its engine reads."""

from typing import Any

from pydantic import ValidationError

from runtime.config import ConfigProblems, EngineConfig, Seconds
from runtime.config_errors import problems
from scenarios.target import Target


class Knobs(EngineConfig):
    """What a scenario may set: all of the engine's settings, and some of the server's."""

    request_timeout_s: Seconds | None = None
    health_stall_s: Seconds | None = None


OF_THE_SERVER = frozenset(Knobs.model_fields) - frozenset(EngineConfig.model_fields)


def server_tables(target: Target) -> dict[str, dict[str, Any]]:
    """The config of `python -m runtime.server`. Raises ConfigProblems with everything that is wrong."""
    given = dict(target.knobs) | ({"model": target.model} if target.model is not None else {})
    try:
        knobs = Knobs.model_validate(given)
    except ValidationError as error:
        raise ConfigProblems(problems(error, Knobs.model_fields)) from None
    return {
        "server": knobs.model_dump(mode="json", include=set(OF_THE_SERVER), exclude_none=True),
        "engine": knobs.model_dump(mode="json", exclude=set(OF_THE_SERVER)),
    }
