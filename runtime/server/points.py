"""Fault points of the server layer."""

from faults import actions
from faults.points import Point, shows
from faults.spec import PHASES
from runtime.core.errors import RuntimeFailure


class StreamError(RuntimeFailure):
    """A stream broke after its head was sent, so the error is sent in band."""

    code = "stream_error"


SERVER_STREAM = Point(
    name="server.stream",
    layer="server",
    breaks="an answer breaks off while it is streamed: its client loses the end, all other requests are served",
    actions=(
        actions.cut(symptom="outcome:truncated"),
        actions.fail("error", StreamError, symptom="outcome:inband_error"),
        actions.delay(symptom="reply:late"),
    ),
    scope=(shows("group", "load", phase=PHASES),),
)

POINTS = (SERVER_STREAM,)
