"""Settings of the built-in runtime: `engine` in the server's config, `target.knobs` in a scenario. Loads no torch."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from faults.spec import did_you_mean
from runtime.scheduling.preemption import Mode
from runtime.scheduling.scheduler import Limits


class KnobProblems(ValueError):
    """Every setting that can't be used, with what is allowed."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """All have defaults that suit the embedded model on a small machine."""

    model: str | None = None
    """A Hugging Face directory; None is the embedded default."""
    kv_blocks: int = 512
    """0: half of what the device says is free. In virtual time it must be given."""
    block_tokens: int = 16
    token_budget: int = 512
    """New tokens a step, over all rows."""
    seqs_max: int = 32
    waiting_max: int = 256
    expected_output: float = 1.0
    """Share of `max_tokens` that a request is expected to generate when it is decided whether the pool can hold it;
    less lets more in, and preempts more."""
    preemption: str = "auto"
    """What becomes of who is preempted: swap, recompute, fail, or auto, the cheaper of the first two."""
    swap_blocks: int = 256
    """Room on the host for the KV of preempted requests; 0: they compute it again."""
    ageing_s: float = 30.0
    """Head start of each level of priority; whoever has waited longer goes first."""
    threads: int = 0
    """torch's threads; 0 leaves one core to the load generator (2 threads beside one busy process took a decode step
    from 4 ms to 14-270 ms, 1 thread 6-12 ms)."""
    late_s: float = 0.5
    hang_fatal_s: float = 120.0
    heartbeat_s: float = 15.0
    """Without a sign of life from the harness for so long, every fault heals."""
    prefix_cache: bool = True
    """Requests of one group that begin alike share the KV of what they have in common."""
    exact: bool = False
    """Bit-equal results whatever the batch, at 0.56-0.7 of the speed."""
    poison: bool = False
    """Overwrite activations, scratch and host memory as they come back: who still reads them gets wrong answers."""
    faults: bool = True
    """False builds the runtime without its fault bus: nothing can be armed."""
    seed: int = 0

    @property
    def torch_threads(self) -> int:
        """What `threads` comes to on this machine."""
        return self.threads or max(1, len(os.sched_getaffinity(0)) - 1)

    def to_json(self) -> dict[str, Any]:
        """As the server's config has it."""
        return asdict(self)


def limits_of(knobs: Knobs) -> Limits:
    """What of them is the scheduler's."""
    return Limits(
        token_budget=knobs.token_budget,
        seqs_max=knobs.seqs_max,
        waiting_max=knobs.waiting_max,
        expected_output=knobs.expected_output,
        preemption=Mode(knobs.preemption),
        ageing_s=knobs.ageing_s,
    )


def read_knobs(given: Mapping[str, object]) -> Knobs:
    """From JSON or TOML values. Raises KnobProblems with everything that is wrong."""
    known = {each.name: each for each in fields(Knobs)}
    problems = [f'no knob "{name}"{did_you_mean(name, known)}' for name in given if name not in known]
    for name, value in given.items():
        if name in known and (wrong := _wrong(name, str(known[name].type), value)):
            problems.append(f"{name} = {value!r}: {wrong}")
    if problems:
        raise KnobProblems("; ".join(problems))
    return Knobs(**given)  # type: ignore[arg-type]


_MAY_BE_ZERO = ("threads", "seed", "swap_blocks", "kv_blocks")
_SHARES = ("expected_output",)
_WORDS = {"preemption": tuple(Mode)}


def _wrong(name: str, declared: str, value: object) -> str | None:
    """What is allowed, when `value` is not."""
    if "bool" in declared:
        return None if isinstance(value, bool) else "give true or false"
    if name in _WORDS:
        return None if value in _WORDS[name] else f"give {', '.join(_WORDS[name][:-1])} or {_WORDS[name][-1]}"
    if "str" in declared:
        return None if value is None or isinstance(value, str) else "give a string"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _SHARES:
        return None if number and 0 <= value <= 1 else "give a share from 0 to 1"  # type: ignore[operator]
    if "float" in declared:
        return None if number and value > 0 else "give a number of seconds above 0"  # type: ignore[operator]
    least = 0 if name in _MAY_BE_ZERO else 1
    return None if isinstance(value, int) and number and value >= least else f"give a whole number of at least {least}"
