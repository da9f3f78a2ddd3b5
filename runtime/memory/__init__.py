"""All memory of a runtime: KV in blocks (kv), and spans of segments for everything else (spans)."""
