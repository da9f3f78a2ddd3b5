"""The runtime as it is served, with the test as its thread and its client."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from runtime.build import Runtime, build_served
from runtime.core.messages import Output, Submit
from runtime.core.work import Sampled, Sampling

WAIT_S = 60.0
NEVER_NS = 2**62


class Witness:
    """Evidence of faults; there are none."""

    def fire(self, fire: Any) -> None:
        raise AssertionError("no fault is armed")

    def fault(self, state: Any) -> None:
        raise AssertionError("no fault is armed")


class Served:
    """Answers requests by its own turns. See `served`."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._said: dict[str, list[Sampled]] = {}
        self._ended: dict[str, Any] = {}
        self._asked = 0

    def step(self, outputs: Sequence[Output]) -> None:
        """See Sink."""
        for output in outputs:
            self._said[output.request_id] += output.tokens
            if output.ended is not None:
                self._ended[output.request_id] = output.ended.end

    def replies(self, asked: Sequence[tuple[Sequence[int], int, Sampling]]) -> list[list[Sampled]]:
        """The reply to each prompt, with at most so many tokens; all are asked at once."""
        names = [f"r{self._asked + n}" for n in range(len(asked))]
        self._asked += len(asked)
        for name, (prompt, tokens_max, sampling) in zip(names, asked, strict=True):
            self._said[name] = []
            submit = Submit(name, tuple(prompt), tokens_max, sampling, self.runtime.env.clock.now_ns(), NEVER_NS)
            assert self.runtime.mailbox.offer(submit)
        while not self._ended.keys() >= set(names):
            self.runtime.turn()
            if not self._ended.keys() >= set(names):
                self.runtime.mailbox.wait(WAIT_S)
        assert all(self._ended[name].outcome == "ok" for name in names), self._ended
        return [self._said[name] for name in names]


@contextmanager
def served(**knobs: object) -> Iterator[Served]:
    """A runtime with these settings of `target.knobs`."""
    runtime = build_served({"threads": 1, "waiting_max": 4096, **knobs}, Witness())
    made = Served(runtime)
    runtime.start(made, threaded=False)
    try:
        yield made
    finally:
        runtime.close()
