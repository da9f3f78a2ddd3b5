"""Configures glibc's malloc to reuse step buffers instead of mapping new pages at each step.

By default glibc returns every large buffer to the kernel at `free`, and the next `malloc` maps zeroed pages again. The
about 1,000 minor faults per decode step halve the speed of a small model. Resident memory would also follow the size of
the last batch, while a soak test expects a plateau.
"""

import ctypes
import resource

_M_TRIM_THRESHOLD = -1  # malloc.h
_M_MMAP_THRESHOLD = -3
_MMAP_THRESHOLD_MAX = 32 << 20  # glibc refuses more than HEAP_MAX_SIZE / 2
_TRIM_THRESHOLD = 1 << 30


def keep_freed_memory() -> bool:
    """Serve buffers of up to 32 MiB from the heap, and keep up to 1 GiB of free heap, for all threads of this process.

    Return False when the C library has no `mallopt`; nothing changes then.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = ((_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_MAX), (_M_TRIM_THRESHOLD, _TRIM_THRESHOLD))
    return all(mallopt(name, value) == 1 for name, value in settings)


def minor_faults() -> int:
    """Return the number of minor page faults of this process since its start, over all threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
