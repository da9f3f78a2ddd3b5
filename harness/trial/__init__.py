"""One trial over ports: phases, ticks, faults, baseline gate, audits and limits. Live and virtual runs share it."""
