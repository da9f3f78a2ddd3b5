"""The sampler raises on the device's worker: each launch from some point on fails, and the engine lives on.

Models Z115 (vllm#45346 and its class: a check that comes only when the step runs), on the side of the device.
"""

from tests.planted.raising import raising

MODULE = "runtime.models.sampler"


def plant(sampler):
    sampler.describe = raising(sampler.describe, IndexError("planted in the sampler"), 250)
