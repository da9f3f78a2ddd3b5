"""What can be put on a pool, one thing each. The order that makes sense, outermost first:

Stats    counts what the caller sees
Retry    climbs the ladder before it gives up
Limit    a bound below that of the device
Track    by whom, and who freed it first
Fault    breaks it on demand; inside of Retry, so that the ladder is what is tried
Poison   overwrites what comes back
"""

from runtime.memory.spans.adaptors.base import Adaptor, find_adaptor
from runtime.memory.spans.adaptors.fault import Fault, FaultAlloc
from runtime.memory.spans.adaptors.limit import Limit
from runtime.memory.spans.adaptors.poison import Poison
from runtime.memory.spans.adaptors.retry import Retry, Rung, ladder
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.adaptors.track import Track

__all__ = [
    "Adaptor",
    "Fault",
    "FaultAlloc",
    "Limit",
    "Poison",
    "Retry",
    "Rung",
    "Stats",
    "Track",
    "find_adaptor",
    "ladder",
]
