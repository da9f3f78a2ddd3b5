"""Generates `scenarios/pairs/`: each trouble of the device together with each moment of a request that it can meet.

    python -m scenarios.pairs          writes the files; a test fails when they are stale
    seatrial nightly scenarios/pairs   runs them all

    trouble     a slow copy, a failing copy, a slow launch, a late completion
    moment      its client leaves, its deadline passes, it is preempted, its cached prefix is evicted

A restart is no moment here: virtual time has none.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("pairs")
TROUBLES: Final = {
    "slow-copy": ("device.copy.h2d: delay 700ms", "before"),
    "failing-copy": ("device.copy.h2d: error", "in_flight"),
    "slow-launch": ("device.launch: delay 700ms", "before"),
    "late-completion": ("device.complete: delay 700ms", "before"),
}
"""Name -> (what the fault does, where at its point)."""
MOMENTS: Final = {
    "cancel": (
        ", request_timeout_s = 30",
        "["
        + ", ".join(f'{{ share = 0.12, at = "after {after}" }}' for after in ("50ms", "400ms", "900ms", "2s"))
        + "]",
        '["ok", "refused"]',
    ),
    "deadline": (", request_timeout_s = 2", "[]", '["ok", "refused", "timeout"]'),
    "preemption": (", request_timeout_s = 30", "[]", '["ok", "refused"]'),
    "eviction": (", request_timeout_s = 30, prefix_cache = true", "[]", '["ok", "refused"]'),
}
"""Name -> (knobs of the server, cancels of the load, outcomes while the trouble lasts)."""
TEMPLATE: Final = """#:schema ../scenario.schema.json
schema = 1
name   = "{trouble}-and-{moment}"
means  = "a {trouble} that met a {moment} cost a request its answer, or blocks were not given back"
seed   = {seed}
drive  = "virtual"
phases = {{ warmup = {{ completed = 20 }}, baseline = "3s", trial = "20s", recovery = "10s", drain_max = "30s" }}
canary = {{ every = "1s" }}

[target]
kind  = "builtin"
knobs = {{ kv_blocks = 40, token_budget = 64, expected_output = 0.0, preemption = "swap", swap_blocks = 64{knobs} }}

[[load]]
id            = "chat"
rate          = "7/s"
prompt_tokens = [20, 160]
output_tokens = [20, 120]
shared_prefix = 0.5
cancel        = {cancel}

[[fault]]               # KV goes to the host and comes back all the time
id     = "storm"
do     = "sched.preempt: force"
when   = {{ at = "2s", interval = {interval}, times = 60 }}
expect = {{ outcomes = {outcomes}, victims = "all", recover = "20s" }}

[[fault]]
id     = "trouble"
do     = "{do}"
place  = "{place}"
when   = {{ at = "3s", interval = 2, times = 15 }}
expect = {{ outcomes = {outcomes}, victims = "all", recover = "20s" }}
"""


def texts() -> dict[str, str]:
    """The text of each scenario by its name."""
    found = {}
    for number, (trouble, (do, place)) in enumerate(TROUBLES.items()):
        for other, (moment, (knobs, cancel, outcomes)) in enumerate(MOMENTS.items()):
            found[f"{trouble}-and-{moment}"] = TEMPLATE.format(
                trouble=trouble,
                moment=moment,
                seed=100 + 10 * number + other,
                knobs=knobs,
                cancel=cancel,
                interval=4 if moment == "preemption" else 16,
                outcomes=outcomes,
                do=do,
                place=place,
            )
    return found


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / f"{name}.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
