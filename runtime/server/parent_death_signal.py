"""Ends a child process when its parent dies, even by SIGKILL."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Asks the kernel to send SIGKILL to this process when the parent's thread that started it ends.

    It works on Linux only; elsewhere the parent is watched with `getppid`. The setting survives exec. The parent must
    start this process from a thread that lives as long as the parent; the supervisor has only one thread.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        # The parent died before the signal was set.
        os.kill(os.getpid(), signal.SIGKILL)
