"""The guards of the engine: deadlines, hung launches, and the audit that names the owner of every holding."""
