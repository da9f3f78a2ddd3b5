"""The scheduler: states of requests, queues, preemption, and the batches of the next step."""
