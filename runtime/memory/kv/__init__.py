"""KV in blocks: who holds them, what they hold, what is cached of them, and what of them lies on the host."""
