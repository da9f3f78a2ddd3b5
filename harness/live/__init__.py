"""The ports of a trial in real time: processes, HTTP and the monotonic clock."""
