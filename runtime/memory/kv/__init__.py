"""The paged KV pool: blocks with owners, tags, the prefix cache, and swap to host memory."""
