"""Runs a folder of scenarios every night, stores the trials in trials.sqlite, and compares them with past nights."""
