"""What shall happen, in words and numbers: the scenario file, its reader, arrivals and traces.

Nothing here runs anything. The only import from the rest of the house is `faults.spec`, to check a trigger's words.
"""
