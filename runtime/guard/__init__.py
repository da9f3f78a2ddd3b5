"""Ends things well: deadlines, hangs, and the audit that names who still holds what."""
