"""Typed events of a serving session: everything that a client is told of its request, in order.

    streamed, good      Head, [Opening], Tokens ..., Finished, [Counts], Done
    streamed, bad       Refusal                  before the head: a true HTTP status
                        ... InBandError          after it: an error object, then [DONE]
                        ... Cut                  the connection breaks
    in one piece        WholeAnswer, or Refusal

A Delay can stand before each event in `CROSSING`: nothing more goes out until its effect is over.
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
    """Some tokens, and the text that they let the client see; the text is "" when that is nothing yet."""

    text: str
    sampled: Sequence[Sampled]


@dataclass(frozen=True, slots=True)
class Finished:
    """The chunk that says why the answer is over: stop or length."""

    reason: str


@dataclass(frozen=True, slots=True)
class Counts:
    """The chunk of `include_usage`, with the engine's own counts."""

    ended: Ended


@dataclass(frozen=True, slots=True)
class Done:
    """[DONE]: the stream ends in good order."""


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """The answer to a request that is not streamed."""

    text: str
    sampled: Sequence[Sampled]
    reason: str
    ended: Ended


@dataclass(frozen=True, slots=True)
class Refusal:
    """No byte was sent: a true HTTP error."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class InBandError:
    """The head is out, so the stream carries the error, and then [DONE]."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is to be closed in the middle of the answer."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Nothing goes out until `effect` is over; then the writer calls `Session.resume`."""

    effect: Effect


Event = Head | Opening | Tokens | Finished | Counts | Done | WholeAnswer | Refusal | InBandError | Cut | Delay
CROSSING = (Opening, Tokens, Finished, Counts)
"""Events that cross the fault point `server.stream`, each once, before they go out."""
LAST = (Done, WholeAnswer, Refusal, InBandError, Cut)
"""Nothing comes after one of these."""

HEAD, OPENING, DONE, CUT = Head(), Opening(), Done(), Cut()
