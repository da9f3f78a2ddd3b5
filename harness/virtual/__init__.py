"""A trial in virtual time: the same engine, phases, faults and judges; no process, no socket, no sleeping."""
