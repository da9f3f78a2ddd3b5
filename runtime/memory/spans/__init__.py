"""Pools of spans, for all bytes but KV: placements, pools on them, and adaptors around pools."""
