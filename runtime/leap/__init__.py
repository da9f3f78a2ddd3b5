"""Many decode steps in one flight, for engines in virtual time."""

from runtime.leap.leap import Leap
from runtime.leap.news import News

__all__ = ["Leap", "News"]
