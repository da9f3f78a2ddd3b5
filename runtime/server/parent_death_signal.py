"""A child that dies with its parent, whatever the parent died of."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel for SIGKILL when the parent's thread that started us ends. Linux only; elsewhere the watch of
    `getppid` must do. It survives exec, so it may be called before.

    Who starts us must live on in that very thread: the supervisor has but one.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        # It died before we could ask.
        os.kill(os.getpid(), signal.SIGKILL)
