"""Keeps OpenMP to one pool of threads in this process, that of the device's worker.

Each thread that runs a parallel torch operator gets an OpenMP pool of its own, which stays as long as the thread. Once
all pools together hold more threads than there are cores, libgomp no longer lets waiting threads spin but puts them to
sleep: each of the 75 parallel operators of a decode step then wakes its helpers through the kernel, and the second
thread costs more than it computes. So weights are loaded and copies are made on the calling thread alone.
"""

import torch


def compute_alone() -> None:
    """Torch operators that the calling thread runs start no pool. The worker's number of threads is its own."""
    torch.set_num_threads(1)
