"""One trial over ports: phases, ticks, faults, gate, audits and limits, the same in live and in virtual time."""
