"""Fills the device: the life of a request, and what runs in the next step."""
