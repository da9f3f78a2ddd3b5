"""The real child process over the fake engine: `python -m tests.runtime.server.child`. The prompt "die" kills it."""

import sys
from collections.abc import Mapping, Sequence

from faults import FaultSpec
from runtime.core.messages import Submit
from runtime.server import main
from runtime.server.ports import EventSink, RuntimeHandle
from tests.runtime.server.fake import FakeServed, echo


class Mortal(FakeServed):
    """Loses its device when it is told to."""

    def turn(self) -> None:
        super().turn()
        last = self.seen[-1] if self.seen else None
        if isinstance(last, Submit) and bytes(last.prompt) == b"die":
            self.die()


def endless(submit: Submit) -> list[int]:
    """An answer that is not over before the engine dies."""
    return [97] * 1000 if bytes(submit.prompt) == b"die" else echo(submit)


def build(engine: Mapping[str, object], evidence: EventSink, armed: Sequence[FaultSpec]) -> RuntimeHandle:
    if engine.get("model") == "none":
        raise ValueError('model "none" is no directory; give one')
    return Mortal(endless, evidence=evidence)


if __name__ == "__main__":
    main.run(sys.argv[1:], build)
