"""The load process sends the planned requests to a target and records what each client saw."""
