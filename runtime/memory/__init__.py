"""Owns every byte: kv in blocks, with tags that say what each slot should hold, and spans of everything else."""
