"""Owns every byte: KV blocks with owners, and the tag plane that says what each slot should hold."""
