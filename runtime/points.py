"""The catalogue of the runtime's fault points, and the names of points that are planned. No torch."""

from faults import Catalogue
from runtime.contract.points import POINTS as CONTRACT
from runtime.device.mem_info import POINTS as MEM_INFO
from runtime.device.points import POINTS as DEVICE
from runtime.memory.kv.points import POINTS as KV
from runtime.memory.spans.points import POINTS as SPANS
from runtime.models.points import POINTS as MODELS
from runtime.scheduling.points import POINTS as SCHEDULING
from runtime.server.points import POINTS as SERVER

PLANNED = tuple(
    "device.event.record device.event.wait "
    "graph.capture graph.instantiate graph.replay graph.address compile.pass compile.load weights.unpack "
    "group.quota group.teardown watchdog.timer cancel.deliver clock.jump".split()
)


def catalogue() -> Catalogue:
    """Return the catalogue of all fault points."""
    return Catalogue((*CONTRACT, *KV, *SPANS, *SCHEDULING, *DEVICE, *MEM_INFO, *MODELS, *SERVER), PLANNED)
