"""`[target]`: which runtime is on trial, and how to reach it."""

from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from scenarios.types import NonEmptyStr, PositiveInt, PositiveSeconds, ScenarioTable, Share, TupleOf
from scenarios.units import InvalidValue


def _knob(value: object) -> str | int | float | bool:
    if isinstance(value, str | int | float | bool):
        return value
    raise InvalidValue("a knob is a string, a number, true or false")


Knob = Annotated[str | int | float | bool, PlainValidator(_knob)]


class Group(ScenarioTable):
    """One tenant. Shares are of the KV blocks."""

    name: NonEmptyStr
    guarantee: Share = 0.0
    """Share that no other group can take."""
    hard: Share | None = None
    """Share it never exceeds."""
    soft: Share | None = None
    """Share above which its blocks are borrowed, and go first."""
    priority: int = 0
    """Only a strictly higher priority may preempt."""
    key_env: NonEmptyStr | None = None
    """Name of the environment variable that holds this group's key."""


class Target(ScenarioTable):
    """Nothing set: the built-in runtime with its embedded model."""

    kind: Literal["builtin", "command", "url"] = "builtin"
    """`builtin`: our runtime; `command`: we start it and own its process; `url`: it runs already."""
    command: TupleOf[NonEmptyStr] = ()
    """Program and arguments, never through a shell."""
    url: NonEmptyStr | None = None
    """Where it serves, such as "http://127.0.0.1:8000"."""
    model: NonEmptyStr | None = None
    """Model name of the requests; for `builtin` a Hugging Face directory."""
    key_env: NonEmptyStr | None = None
    """Name of the environment variable that holds the key; never the key itself."""
    metrics: NonEmptyStr | None = None
    """URL of its Prometheus metrics."""
    metrics_preset: Literal["vllm", "sglang"] = "vllm"
    """Whose metric names it uses."""
    pid: PositiveInt | None = None
    """Process to watch when we did not start it."""
    knobs: dict[str, Knob] = Field(default_factory=dict)
    """Settings handed to the target as they are, such as kv_blocks = 512."""
    groups: TupleOf[Group] = ()
    """Tenants; none: everything is one group."""
    ready_max: PositiveSeconds = 120.0
    """Longest time from start to ready."""
