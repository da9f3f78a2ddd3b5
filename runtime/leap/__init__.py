"""Launches that are not laid out, and many steps in one flight, for engines in virtual time."""

from runtime.leap.leap import Leap
from runtime.leap.news import News
from runtime.leap.script import Scripts

__all__ = ["Leap", "News", "Scripts"]
