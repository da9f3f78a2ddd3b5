"""The sampler raises on the device's worker: each launch from some point on fails, and the engine lives on."""

from tests.planted.raising import raising

MODULE = "runtime.models.sampler"


def plant(sampler):
    sampler.describe = raising(sampler.describe, IndexError("planted in the sampler"), 250)
