"""All other bytes: spans of segments, the ways to place them, and what can be stacked on a pool of them."""
