"""Many decode steps in one flight, for engines in virtual time."""

from runtime.leap.leap import Leap, News

__all__ = ["Leap", "News"]
