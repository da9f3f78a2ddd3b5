"""Record: one append-only history per run, written by one process, the only memory of what happened."""
