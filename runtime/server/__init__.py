"""OpenAI-compatible HTTP in front of an engine that runs on its own thread of the same process.

supervisor (no torch) --starts, restarts--> main --> house: two listeners, one loop, one engine thread
request --> app --> schema --> door --Submit--> engine --> sink --> exchange --> reply --> client
"""
