"""A folder of scenarios every night: run, kept in trials.sqlite, compared with the nights before, one page."""
