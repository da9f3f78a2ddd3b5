"""OpenAI-compatible HTTP server in front of an engine that runs on its own thread of the same process.

supervisor (no torch) --starts, restarts--> main --> ServerProcess: two listeners, one event loop, one engine thread
request --> app --> schema --> admission --Submit--> engine --> process --> session --> response writer --> client
"""
