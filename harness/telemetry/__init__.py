"""Sense: what machine, processes and server look like from outside, once a second, with gaps and absences told."""
