"""The ports and the ledger that every layer of the runtime speaks through. No torch, no clock, no thread."""
