"""Messages, ports and the ledger: the types that all layers of the runtime share. No torch, no clock, no thread."""
