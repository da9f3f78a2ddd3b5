"""Typed events of a serving session: everything that a client receives for its request, in order.

    streamed, good      Head, [Opening], Tokens ..., Finished, [Counts], Done
    streamed, bad       Refusal                  before the head: a true HTTP status
                        ... InBandError          after it: an error object, then [DONE]
                        ... Cut                  the connection breaks
    in one piece        WholeAnswer, or Refusal

A Delay can come before each event in `CROSSING`: nothing is sent until its effect is over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from faults import Effect
from runtime.core.messages import Ended
from runtime.core.work import Sampled
from runtime.server.errors import Problem


@dataclass(frozen=True, slots=True)
class Head:
    """The answer begins: HTTP 200 and the headers of a stream."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The chunk before the first token, which names the assistant's role (chat only)."""


@dataclass(slots=True)
class Tokens:
    """Some tokens and the text that they complete; the text is "" when they complete none yet."""

    text: str
    sampled: Sequence[Sampled]


@dataclass(frozen=True, slots=True)
class Finished:
    """The chunk with the finish reason: stop or length."""

    reason: str


@dataclass(frozen=True, slots=True)
class Counts:
    """The chunk of `include_usage`, with the engine's own counts."""

    ended: Ended


@dataclass(frozen=True, slots=True)
class Done:
    """[DONE]: the end of a complete stream."""


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """The answer to a request that is not streamed."""

    text: str
    sampled: Sequence[Sampled]
    reason: str
    ended: Ended


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP error response; no byte was sent before it."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class InBandError:
    """An error inside of a stream whose head was sent, followed by [DONE]."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class Cut:
    """The writer closes the connection in the middle of the answer."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The writer sends nothing until `effect` is over, and then calls `Session.resume`."""

    effect: Effect


Event = Head | Opening | Tokens | Finished | Counts | Done | WholeAnswer | Refusal | InBandError | Cut | Delay
CROSSING = (Opening, Tokens, Finished, Counts)
"""Events that cross the fault point `server.stream`, each once, before they are sent."""
LAST = (Done, WholeAnswer, Refusal, InBandError, Cut)
"""Events that end a session's events."""

HEAD, OPENING, DONE, CUT = Head(), Opening(), Done(), Cut()
