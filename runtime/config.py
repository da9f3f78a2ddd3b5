"""Settings of the built-in runtime: `engine` in the server's config, `target.knobs` in a scenario. Loads no torch."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.config_errors import problems
from runtime.guard.watchdog import Bounds
from runtime.scheduling.preemption import Mode
from runtime.scheduling.scheduler import Limits

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ConfigProblems(ValueError):
    """Every setting that can't be used, with what is allowed."""

    def __init__(self, found: list[str]) -> None:
        super().__init__("; ".join(found))
        self.problems = found


class EngineConfig(BaseModel):
    """All fields have defaults that suit the embedded model on a small machine."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    model: str | None = None
    """A Hugging Face directory; None is the embedded default."""
    kv_blocks: Count = 512
    """0: half of what the device says is free. In virtual time it must be given."""
    block_tokens: Positive = 16
    token_budget: Positive = 512
    """New tokens a step, over all rows."""
    seqs_max: Positive = 32
    waiting_max: Positive = 256
    expected_output: Share = 1.0
    """Share of `max_tokens` that a request is expected to generate when it is decided whether the pool can hold it;
    less lets more in, and preempts more."""
    preemption: Annotated[Mode, Field(strict=False)] = Mode.AUTO
    """What becomes of who is preempted: swap, recompute, fail, or auto, the cheaper of the first two."""
    swap_blocks: Count = 256
    """Room on the host for the KV of preempted requests; 0: they compute it again."""
    ageing_s: Seconds = 30.0
    """Head start of each level of priority; whoever has waited longer goes first."""
    threads: Count = 0
    """torch's threads; 0 leaves one core to the load generator (2 threads beside one busy process took a decode step
    from 4 ms to 14-270 ms, 1 thread 6-12 ms)."""
    late_s: Seconds = 0.5
    hang_fatal_s: Seconds = 120.0
    heartbeat_s: Seconds = 15.0
    """Without a sign of life from the harness for so long, every fault heals."""
    prefix_cache: bool = True
    """Requests of one group that begin alike share the KV of what they have in common."""
    exact: bool = False
    """Bit-equal results whatever the batch, at 0.56-0.7 of the speed."""
    poison: bool = False
    """Overwrite activations, scratch and host memory as they come back: who still reads them gets wrong answers."""
    faults: bool = True
    """False builds the runtime without its fault injector: nothing can be armed."""
    seed: Count = 0

    @property
    def torch_threads(self) -> int:
        """What `threads` comes to on this machine."""
        return self.threads or max(1, len(os.sched_getaffinity(0)) - 1)

    @property
    def limits(self) -> Limits:
        """The scheduler's share of the settings."""
        return Limits(
            token_budget=self.token_budget,
            seqs_max=self.seqs_max,
            waiting_max=self.waiting_max,
            expected_output=self.expected_output,
            preemption=self.preemption,
            ageing_s=self.ageing_s,
        )

    @property
    def bounds(self) -> Bounds:
        """The watchdog's share of the settings."""
        return Bounds(self.late_s, self.hang_fatal_s)

    def to_json(self) -> dict[str, Any]:
        """As the server's config has it."""
        return self.model_dump(mode="json")


def read_engine_config(given: Mapping[str, object]) -> EngineConfig:
    """From JSON or TOML values. Raises ConfigProblems with everything that is wrong."""
    try:
        return EngineConfig.model_validate(dict(given))
    except ValidationError as error:
        raise ConfigProblems(problems(error, EngineConfig.model_fields)) from None
