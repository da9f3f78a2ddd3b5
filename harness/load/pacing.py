"""Constants of the load that live and virtual runs share."""

AFTER_FAILURE_S = 1.0
"""Extra think time of a closed-loop user after a failed request, so that it does not retry in a tight loop."""
CANARY_SLOTS = 4
"""The largest number of open canaries."""
