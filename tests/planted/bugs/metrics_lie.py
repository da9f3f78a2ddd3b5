"""Figures of /metrics that are not true: the requests are served as ever, and only what is told about them is wrong.

Model Z118 (vllm#55634: counters of tokens include what no request got, the count of aborts is always 0) and gauges
that are counted up and not down, as after a cancel of a waiting request (Z110, ray#60118).
"""

MODULE = "runtime.engine.engine"


def running_never_falls(engine, status):
    """A request that leaves the batch is not taken off the gauge."""
    status.running = engine.most = max(status.running, getattr(engine, "most", 0))


def tokens_count_twice(engine, status):
    """Each generated token is counted by the step and again by the request."""
    status.generation_tokens *= 2


def tokens_of_nobody(engine, status):
    """Tokens of the prompt are counted as generated too, and no client gets them."""
    status.generation_tokens += status.prompt_tokens // 10


def prompt_tokens_fall(engine, status):
    """The counter of prompt tokens begins again each time that it has come to 1,500."""
    status.prompt_tokens %= 1500


def preemptions_not_counted(engine, status):
    """A preemption is not counted."""
    status.preemptions = 0


def kv_use_is_zero(engine, status):
    """Every block is told to be free."""
    kv = status.kv
    status.kv = kv._replace(live=0, limbo=0, free=kv.free + kv.live + kv.limbo)


LIVE = (running_never_falls, tokens_count_twice, prompt_tokens_fall, kv_use_is_zero)
"""The lies that can be told at once in a live trial, each about another series."""


def plant(engine, lies=LIVE):
    """Every snapshot tells these lies."""
    publish = engine.Engine._publish

    def _publish(self):
        publish(self)
        for lie in lies:
            lie(self, self.status)

    engine.Engine._publish = _publish
