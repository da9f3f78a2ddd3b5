"""Settle glibc's malloc, so that step buffers are used again instead of being mapped and faulted in at each step.

By default glibc hands every large buffer back to the kernel at `free` and gets it zeroed, page by page, at the next
`malloc`: about 1,000 minor faults a decode step, which cost half the speed of a small model. It also makes resident
memory follow the last batch, where a soak wants to see a plateau.
"""

import ctypes
import resource

_M_TRIM_THRESHOLD = -1  # malloc.h
_M_MMAP_THRESHOLD = -3
_MMAP_THRESHOLD_MAX = 32 << 20  # glibc refuses more than HEAP_MAX_SIZE / 2
_TRIM_THRESHOLD = 1 << 30


def keep_freed_memory() -> bool:
    """For this process and all its threads: buffers up to 32 MiB come from the heap, which shrinks above 1 GiB only.

    False where the C library has no `mallopt` (then nothing changed).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = ((_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_MAX), (_M_TRIM_THRESHOLD, _TRIM_THRESHOLD))
    return all(mallopt(name, value) == 1 for name, value in settings)


def minor_faults() -> int:
    """Pages mapped in without reading a disk since this process began, over all threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
