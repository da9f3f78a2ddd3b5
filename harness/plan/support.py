"""The scenario features and fault points that each drive supports. A plan refuses all others by name."""

from faults import Catalogue
from faults.points import Kind, Severity
from runtime.config import EngineConfig
from scenarios.fault import Fault
from scenarios.features import NAMES, Feature, features
from scenarios.schema import Scenario

NOT_YET = frozenset(
    {
        "target.groups",
        "target.groups.guarantee",
        "target.groups.hard",
        "target.groups.soft",
        "target.groups.priority",
        "fault.scope.session",
    }
)
"""Features that no drive supports."""
LIVE_ONLY = frozenset(
    {
        "target.model",
        "target.key_env",
        "target.metrics",
        "target.metrics_preset.sglang",
        "target.pid",
        "fault.persist",
        "phases.fresh",
    }
)
"""Features that need weights, HTTP or a process that restarts. A virtual run has none of them."""
assert NOT_YET | LIVE_ONLY <= NAMES, f"unknown features: {sorted((NOT_YET | LIVE_ONLY) - NAMES)}"


def unsupported(scenario: Scenario) -> list[Feature]:
    """The features that the scenario uses and its drive does not support, with their position in the file."""
    refused = NOT_YET | LIVE_ONLY if scenario.drive == "virtual" else NOT_YET
    return [feature for feature in features(scenario) if feature.name in refused]


LIVE = 'set drive = "live"'
WEIGHTS = "weights.read"
NOT_VIRTUAL = {
    WEIGHTS: "it is crossed while weights are loaded, and a virtual run loads none",
    "device.mem_info": "it is crossed when the machine's free memory is read, and a virtual run does not read it",
}
"""Points that no virtual run crosses, with the reason."""
HOST = ("swap.out", "swap.in", "device.copy.d2h", "device.copy.h2d", "memory.defrag")
CACHE = ("kv.publish", "kv.evict")


def refused_fault(scenario: Scenario, fault: Fault, catalogue: Catalogue) -> tuple[str, str] | None:
    """Return why the drive can't carry out `fault` and the remedy, or None. The catalogue must hold its action."""
    point = fault.do.point
    if (never := _never_crossed(scenario, fault)) is not None:
        return never
    if scenario.drive == "virtual":
        if (why := NOT_VIRTUAL.get(point)) is not None:
            return why, LIVE
        if _ends_server(fault, catalogue):
            return "it ends a server process, and a virtual run has none that could start again", LIVE
        return None
    others = (each for each in scenario.fault if each.do.point != WEIGHTS)
    if point == WEIGHTS and not (fault.persist and any(_ends_server(each, catalogue) for each in others)):
        rule = "weights are read before any fault can be armed, so it hits only a server that is started again"
        return rule, 'write persist = true, and add a fault that ends the server: do = "device.launch: kill"'
    return None


def _never_crossed(scenario: Scenario, fault: Fault) -> tuple[str, str] | None:
    """Return why the runtime never crosses the fault's point with these knobs and the remedy, or None."""
    point, knobs = fault.do.point, {**EngineConfig().model_dump(), **scenario.target.knobs}
    if not knobs["faults"]:
        return "target.knobs faults = false builds a runtime without fault injection", "leave faults out"
    on_host = point in HOST or (point in ("memory.alloc", "memory.free") and fault.scope.pool == "io")
    if on_host and (not knobs["swap_blocks"] or knobs["preemption"] not in ("auto", "swap")):
        rule = "it is crossed where KV is swapped to the host, and target.knobs turn swapping off"
        return rule, 'set swap_blocks above 0 and preemption = "swap" or "auto"'
    if scenario.drive == "virtual" and (fault.scope.graph or "").endswith("by_page"):
        return "only the model of a real server keeps KV pages in place", LIVE
    if point in CACHE and not knobs["prefix_cache"]:
        return "it is crossed by the prefix cache, and target.knobs prefix_cache = false", "leave that knob out"
    return None


def _ends_server(fault: Fault, catalogue: Catalogue) -> bool:
    do = fault.do
    if do.point not in catalogue.names():
        return False
    action = next((each for each in catalogue.get(do.point).actions if each.name == do.action), None)
    return action is not None and (action.kind is Kind.KILL or action.severity is Severity.FATAL)
