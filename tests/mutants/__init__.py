"""Mutants: real code with one mistake in it, and the stateful machine that must see it.

A machine that passes says something only if it would have failed. Each one here is run twice with the same settings: as
the code is, and it must pass; and on each of its mutants, and it must fail. `python -m tests.mutants` prints the table.
"""
