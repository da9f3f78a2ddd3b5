"""Bugs of real runtimes, planted one at a time and run against the library alone: no scenario is written for a bug."""
