"""What can be put on a pool, one thing each. The order that makes sense, outermost first:

Log      each operation in words, also the one that failed
Stats    counts what the caller sees
Retry    climbs the ladder before it gives up
Limit    a bound below that of the device
Track    since when, by whom, and who freed it first
Fault    breaks it on demand; inside of Retry, so that the ladder is what is tried
Poison   overwrites what comes back
"""

from runtime.memory.spans.adaptors.base import Adaptor, find_adaptor
from runtime.memory.spans.adaptors.fault import Fault, FaultAlloc
from runtime.memory.spans.adaptors.limit import Limit
from runtime.memory.spans.adaptors.log import Log
from runtime.memory.spans.adaptors.poison import Poison
from runtime.memory.spans.adaptors.retry import Retry, Rung, RungCount, ladder
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.adaptors.track import Leak, Track

__all__ = [
    "Adaptor",
    "Fault",
    "FaultAlloc",
    "Leak",
    "Limit",
    "Log",
    "Poison",
    "Retry",
    "Rung",
    "RungCount",
    "Stats",
    "Track",
    "find_adaptor",
    "ladder",
]
