"""Many decode steps in one flight, for engines in virtual time."""

from runtime.leap.leap import Leap

__all__ = ["Leap"]
