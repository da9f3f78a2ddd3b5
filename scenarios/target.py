"""`[target]`: the runtime on trial and its address."""

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
    """A tenant. Shares are shares of the KV blocks."""

    name: NonEmptyStr
    guarantee: Share = 0.0
    """The share that no other group can take."""
    hard: Share | None = None
    """The share that the group never exceeds."""
    soft: Share | None = None
    """The share above which its blocks are borrowed and are reclaimed first."""
    priority: int = 0
    """Only a strictly higher priority preempts."""
    key_env: NonEmptyStr | None = None
    """The name of the environment variable that holds this group's key."""


class Target(ScenarioTable):
    """The runtime on trial. The default is the built-in runtime with its embedded model."""

    kind: Literal["builtin", "command", "url"] = "builtin"
    """`builtin` is our runtime, `command` is started and stopped by the harness, `url` runs already."""
    command: TupleOf[NonEmptyStr] = ()
    """The program and its arguments, run without a shell."""
    url: NonEmptyStr | None = None
    """The base URL, such as "http://127.0.0.1:8000"."""
    model: NonEmptyStr | None = None
    """The model name of the requests; for `builtin` a Hugging Face directory."""
    key_env: NonEmptyStr | None = None
    """The name of the environment variable that holds the key; never the key itself."""
    metrics: NonEmptyStr | None = None
    """The URL of the Prometheus metrics."""
    metrics_preset: Literal["vllm", "sglang"] = "vllm"
    """The server whose metric names are used."""
    pid: PositiveInt | None = None
    """The process to watch when the harness did not start it."""
    knobs: dict[str, Knob] = Field(default_factory=dict)
    """Settings of the runtime, passed on unchanged, such as kv_blocks = 512."""
    groups: TupleOf[Group] = ()
    """Tenants. Without any, all requests are one group."""
    ready_max: PositiveSeconds = 120.0
    """The longest time from start to ready."""
