"""Records a run in one append-only history, run.sqlite, which one process writes."""
