"""What each drive serves today. Whatever else a scenario asks for is refused by name, never ignored."""

from faults.points import Action, Kind, Severity
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
        "fault.scope.graph",
    }
)
"""No drive serves these."""
LIVE_ONLY = frozenset(
    {"target.model", "target.key_env", "target.metrics", "target.metrics_preset.sglang", "target.pid", "fault.persist"}
)
"""They speak of weights, HTTP and processes that end and start again, which a virtual run has none of."""
assert NOT_YET | LIVE_ONLY <= NAMES, f"unknown features: {sorted((NOT_YET | LIVE_ONLY) - NAMES)}"


def unserved(scenario: Scenario) -> list[Feature]:
    """What the scenario uses and its drive does not serve, with where it stands in the file."""
    refused = NOT_YET | LIVE_ONLY if scenario.drive == "virtual" else NOT_YET
    return [feature for feature in features(scenario) if feature.name in refused]


def refused_action(scenario: Scenario, action: Action) -> str | None:
    """Why this drive can't carry out a fault's action; None when it can."""
    if scenario.drive == "virtual" and (action.kind is Kind.KILL or action.severity is Severity.FATAL):
        return "it ends a server process, and a virtual run has none that could start again"
    return None
