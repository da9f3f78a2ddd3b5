"""Scenarios: the scenario file, its reader, arrivals and traces.

Nothing here runs a trial. The only import from another folder is `faults.spec`, which checks `do`.
"""
