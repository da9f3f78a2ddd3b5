"""The harness plans, runs, records, judges and reports trials, and has the command line."""
