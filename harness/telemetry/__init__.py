"""Telemetry: samples of machine, processes and server, once a second. Gaps and absent sensors are recorded too."""
