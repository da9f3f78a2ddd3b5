"""Which trial fires each action of each fault point, and the scenarios of those trials.

Three trials in virtual time fire all that a virtual run can cross. What only a real server crosses is fired by the slow
trials: a kernel that dies, weights that are read again after a restart, the memory of the machine.
"""

CROWDED = (
    *(
        ("contract.bind", f"corrupt {word}", "before")
        for word in ("shape", "rank", "dtype", "stride", "device", "align")
    ),
    ("contract.cache", "lie", "before"),
    ("device.complete", "delay 1s", "before"),
    ("device.complete", "drop 1s", "before"),
    *(("device.launch", "error", place) for place in ("before", "in_flight", "after")),
    ("device.launch", "delay 1s", "before"),
    ("device.launch", "hang 1s", "before"),
    *(
        (f"device.copy.{way}", action, "before")
        for way in ("d2h", "h2d")
        for action in ("error", "delay 1s", "hang 1s", "drop")
    ),
    ("kv.take", "oom", "before"),
    ("kv.publish", "drop", "before"),
    ("kv.evict", "drop", "before"),
    ("swap.out", "refuse", "before"),
    ("swap.in", "refuse", "before"),
    ("memory.alloc", "oom", "before"),
    ("memory.alloc", "oom", "after"),
    ("memory.reset", "drop", "before"),
    ("memory.defrag", "error", "before"),
    ("memory.free", "drop", "before"),
    ("sched.admit", "refuse", "before"),
    ("sched.preempt", "force", "before"),
    ("sched.preempt", "fail", "in_flight"),
    ("server.stream", "cut", "before"),
    ("server.stream", "error", "before"),
)
"""(point, action with its argument, place), fired one after the other on a runtime that is short of KV blocks."""
CALM = (("server.stream", "delay 3s", "before"),)
"""A late reply shows only where replies are not late anyway."""
PACKED = (("memory.defrag", "error", "in_flight"),)
"""A defragmentation moves something only where a swap is refused while a span lies behind a hole that it fits into."""
LIVE = (
    ("device.mem_info", "lie 1", "before"),
    ("device.launch", "lost", "before"),
    ("device.launch", "kill", "before"),
)
"""Fired in one live trial, whose server starts again twice."""
LOADING = (("weights.read", "error", "before"), ("weights.read", "corrupt bit_flip", "before"))
"""Each ends its live trial: nothing is served from weights that were read wrong."""

_PHASES = (
    "{{ warmup = {{ completed = {completed} }}, "
    'baseline = "2s", trial = "{trial_s}s", recovery = "2s", drain_max = "20s" }}'
)
_HEAD = """
schema = 1
name   = "points"
means  = "a fault point was armed and nothing shows that it broke anything"
seed   = {seed}
drive  = "{drive}"
phases = {phases}
"""
_SHORT = """
[[load]]
id            = "chat"
rate          = "14/s"
prompt_tokens = [20, 200]
output_tokens = [20, 100]
shared_prefix = 0.4
[target.knobs]
kv_blocks         = 60
token_budget      = 64
expected_output   = 0.0
preemption        = "swap"
swap_blocks       = 24
request_timeout_s = 20
"""
_PLAIN = """
[[load]]
id            = "chat"
rate          = "4/s"
prompt_tokens = [20, 60]
output_tokens = [4, 24]
"""
_LONG = """
[[load]]
id            = "low"
rate          = "0.8/s"
prompt_tokens = [9000, 12000]
output_tokens = [10, 60]
timeout       = "100s"
[[load]]
id            = "high"
rate          = "0.8/s"
prompt_tokens = [4000, 20000]
output_tokens = [4, 30]
priority      = 5
timeout       = "100s"
[target.knobs]
block_tokens      = 256
kv_blocks         = 250
token_budget      = 4096
expected_output   = 0.0
preemption        = "swap"
swap_blocks       = 110
request_timeout_s = 120
"""
"""Contexts so long that what is swapped is too large for size classes, and a pool that holds two or three of them."""
_FAULT = """
[[fault]]
id      = "f{number}"
do      = "{point}: {action}"
place   = "{place}"
when    = {{ at = "{at_s}s", times = {times} }}
persist = {persist}
expect  = {{ outcomes = {outcomes}, victims = "all", recover = "30s" }}
"""
_OUTCOMES = ("ok", "refused", "truncated", "inband_error", "http_error", "timeout", "unfinished")
Fault = tuple[str, str, str]


def crowded() -> str:
    """One second to each of `CROWDED`; those that find nothing to break at once stay armed."""
    return _head("virtual", len(CROWDED) + 4) + _SHORT + _faults(CROWDED, 0, 1, times=3)


def calm() -> str:
    return _head("virtual", 10) + _PLAIN + _faults(CALM, 1, 1, times=3)


def packed() -> str:
    return _head("virtual", 20, seed=6, completed=5) + _LONG + _faults(PACKED, 0, 1, times=1)


def live() -> str:
    return _head("live", 30) + _PLAIN + _faults(LIVE, 1, 6, times=1)


def loading(fault: Fault) -> str:
    """The server is killed, and what it reads when it starts again is broken."""
    killed = _fault(1, ("device.launch", "kill", "before"), at_s=3, times=1)
    return _head("live", 12) + _PLAIN + _fault(0, fault, at_s=1, times=1, persist=True) + killed


def _head(drive: str, trial_s: int, seed: int = 5, completed: int = 30) -> str:
    phases = _PHASES.format(trial_s=trial_s, completed=completed)
    return _HEAD.format(drive=drive, phases=phases, seed=seed)


def _faults(faults: tuple[Fault, ...], from_s: int, every_s: int, times: int) -> str:
    return "".join(_fault(n, each, at_s=from_s + n * every_s, times=times) for n, each in enumerate(faults))


def _fault(number: int, fault: Fault, *, at_s: int, times: int, persist: bool = False) -> str:
    point, action, place = fault
    told = {"number": number, "point": point, "action": action, "place": place, "at_s": at_s, "times": times}
    return _FAULT.format(**told, persist=str(persist).lower(), outcomes=list(_OUTCOMES))
