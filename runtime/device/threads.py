"""Restricts OpenMP to one pool of threads in this process, that of the device's worker.

Each thread that runs a parallel torch operator gets its own OpenMP pool, which lives as long as the thread. When all
pools together have more threads than there are cores, libgomp puts waiting threads to sleep instead of letting them
spin. Each of the 75 parallel operators of a decode step then wakes its helpers through the kernel, and a second thread
costs more than it gains. So other threads load weights and make copies without helpers.
"""

import torch


def compute_alone() -> None:
    """Make the calling thread's torch operators single-threaded, so that they start no pool. The worker thread sets its
    own number of threads."""
    torch.set_num_threads(1)
