"""Settings of the built-in runtime: `engine` in the server's config, `target.knobs` in a scenario. No torch."""

import os
from collections.abc import Mapping
from typing import Annotated

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
    """Settings can't be used; `problems` has one text for each, with the allowed values."""

    def __init__(self, found: list[str]) -> None:
        super().__init__("; ".join(found))
        self.problems = found


class EngineConfig(BaseModel):
    """The settings of a runtime. The defaults suit the embedded model on a small machine."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    model: str | None = None
    """A Hugging Face model directory; None is the embedded default model."""
    kv_blocks: Count = 512
    """KV blocks. 0 takes half of the free memory of the device; virtual time needs a number."""
    block_tokens: Positive = 16
    token_budget: Positive = 512
    """Most new tokens of a step, over all rows."""
    seqs_max: Positive = 32
    waiting_max: Positive = 256
    expected_output: Share = 1.0
    """Share of `max_tokens` that a request is expected to generate, for the decision whether the pool can hold it. A
    smaller share admits more requests and preempts more."""
    preemption: Annotated[Mode, Field(strict=False)] = Mode.AUTO
    """Treatment of preempted requests: swap, recompute, fail, or auto, which takes the cheaper of the first two."""
    swap_blocks: Count = 256
    """KV blocks on the host for preempted requests. With 0 they compute their KV again."""
    ageing_s: Seconds = 30.0
    """Waiting time that one level of priority is worth: the scheduler adds it to the time that a request has waited."""
    threads: Count = 0
    """Threads of torch; 0 leaves one core to the load generator. (On two cores beside a busy process, a decode step of
    4 ms took 14 to 270 ms with 2 threads and 6 to 12 ms with 1.)"""
    late_s: Seconds = 0.5
    hang_fatal_s: Seconds = 120.0
    heartbeat_s: Seconds = 15.0
    """Every fault heals when the harness sends no heartbeat for so long."""
    prefix_cache: bool = True
    """Requests of one group share the KV of a common prefix."""
    exact: bool = False
    """Batch-invariant mode: results are equal to the bit in any batch, at 0.56 to 0.7 of the speed."""
    poison: bool = False
    """Overwrites activations, scratch and host memory when they are freed, so that late reads give wrong answers."""
    faults: bool = True
    """False builds the runtime without a fault injector: no fault can be armed."""
    seed: Count = 0

    @property
    def torch_threads(self) -> int:
        """The number of threads on this machine: `threads`, or one less than its cores."""
        return self.threads or max(1, len(os.sched_getaffinity(0)) - 1)

    @property
    def limits(self) -> Limits:
        """The settings of the scheduler."""
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
        """The settings of the watchdog."""
        return Bounds(self.late_s, self.hang_fatal_s)


def read_engine_config(given: Mapping[str, object]) -> EngineConfig:
    """The settings in a table of JSON or TOML values. Raises ConfigProblems with every problem."""
    try:
        return EngineConfig.model_validate(dict(given))
    except ValidationError as error:
        raise ConfigProblems(problems(error, EngineConfig.model_fields)) from None
