"""What the live drive serves today. Whatever else a scenario asks for is refused by name, never ignored."""

from scenarios.features import NAMES, Feature, features
from scenarios.schema import Scenario

NOT_YET = frozenset(
    {
        "drive.virtual",
        "target.groups",
        "target.groups.guarantee",
        "target.groups.hard",
        "target.groups.soft",
        "target.groups.priority",
        "fault.scope.session",
        "fault.scope.graph",
        "fault.persist",
    }
)
assert NOT_YET <= NAMES, f"unknown features: {sorted(NOT_YET - NAMES)}"


def unserved(scenario: Scenario) -> list[Feature]:
    """What the scenario uses and no engine serves yet, with where it stands in the file."""
    return [feature for feature in features(scenario) if feature.name in NOT_YET]
