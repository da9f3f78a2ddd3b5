"""Validate `target.knobs` of the built-in runtime and split them into the tables of its server and its engine."""

from typing import Any

from pydantic import ValidationError

from runtime.config import ConfigProblems, EngineConfig, Seconds
from runtime.config_errors import problems
from scenarios.target import Target


class ServerKnobs(EngineConfig):
    """The settings that a scenario may set: all settings of the engine, and some of the server. Times in seconds."""

    request_timeout_s: Seconds | None = None
    health_stall_s: Seconds | None = None


SERVER_FIELDS = frozenset(ServerKnobs.model_fields) - frozenset(EngineConfig.model_fields)


def server_tables(target: Target) -> dict[str, dict[str, Any]]:
    """The config of `python -m runtime.server`, by table. Raises ConfigProblems with every invalid setting."""
    given = dict(target.knobs) | ({"model": target.model} if target.model is not None else {})
    try:
        knobs = ServerKnobs.model_validate(given)
    except ValidationError as error:
        raise ConfigProblems(problems(error, ServerKnobs.model_fields)) from None
    return {
        "server": knobs.model_dump(mode="json", include=set(SERVER_FIELDS), exclude_none=True),
        "engine": knobs.model_dump(mode="json", exclude=set(SERVER_FIELDS)),
    }
