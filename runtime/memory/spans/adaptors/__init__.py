"""Adaptors: pools around a pool. Each adds one thing. The order that makes sense, outermost first:

Stats    counts, peak, latency and fragmentation, as the caller sees them
Retry    tries the rungs of a ladder before it raises OutOfMemory
Limit    a bound in bytes
Track    the history of each owner, and the first end of a span that is freed twice
Fault    the fault points; inside of Retry, so that an injected failure is met by the ladder
"""
