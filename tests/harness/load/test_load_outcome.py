"""The decision table, row by row."""

from collections.abc import Callable
from functools import partial

import pytest

from harness.load.outcome import ClientEnd, Outcome, decide

TABLE = [
    (partial(decide, ClientEnd.NOT_SENT), Outcome.DROPPED),
    (partial(decide, ClientEnd.UNREACHED), Outcome.HTTP_ERROR),
    (partial(decide, ClientEnd.STOPPED, 200, "stop"), Outcome.UNFINISHED),
    (partial(decide, ClientEnd.CANCELLED, 200), Outcome.CANCELLED),
    (partial(decide, ClientEnd.CANCELLED, None), Outcome.CANCELLED),
    (partial(decide, ClientEnd.DEADLINE, 200, "stop"), Outcome.TIMEOUT),
    (partial(decide, ClientEnd.CUT), Outcome.TRUNCATED),
    (partial(decide, ClientEnd.CUT, malformed=1), Outcome.MALFORMED),
    (partial(decide, ClientEnd.DONE, 429), Outcome.REFUSED),
    (partial(decide, ClientEnd.CUT, 429), Outcome.REFUSED),
    (partial(decide, ClientEnd.DONE, 408), Outcome.TIMEOUT),
    (partial(decide, ClientEnd.DONE, 504), Outcome.TIMEOUT),
    (partial(decide, ClientEnd.DONE, 503), Outcome.HTTP_ERROR),
    (partial(decide, ClientEnd.DONE, 400), Outcome.HTTP_ERROR),
    (partial(decide, ClientEnd.DONE, 302), Outcome.HTTP_ERROR),
    (partial(decide, ClientEnd.DONE, 200, "stop", error_words=("500", "server_error")), Outcome.INBAND_ERROR),
    (partial(decide, ClientEnd.DONE, 200, None, error_words=("hang", "Timeout_Error")), Outcome.TIMEOUT),
    (partial(decide, ClientEnd.DONE, 200, None, error_words=("429",)), Outcome.REFUSED),
    (partial(decide, ClientEnd.CLOSED, 200, None, error_words=("500",), malformed=1), Outcome.INBAND_ERROR),
    (partial(decide, ClientEnd.DONE, 200, "stop", malformed=1), Outcome.MALFORMED),
    (partial(decide, ClientEnd.CUT, 200, "stop"), Outcome.TRUNCATED),
    (partial(decide, ClientEnd.CLOSED, 200, "stop"), Outcome.TRUNCATED),
    (partial(decide, ClientEnd.DONE, 200, None), Outcome.NO_FINISH_REASON),
    (partial(decide, ClientEnd.DONE, 200, "stop"), Outcome.OK),
    (partial(decide, ClientEnd.DONE, 200, "length"), Outcome.OK),
]


@pytest.mark.parametrize(("seen", "outcome"), TABLE)
def test_each_row_of_the_table(seen: Callable[[], Outcome], outcome: Outcome) -> None:
    assert seen() is outcome


def test_the_table_reaches_every_outcome() -> None:
    assert {outcome for _, outcome in TABLE} == set(Outcome)


def test_only_one_row_in_the_table_is_ok_under_any_other_circumstance() -> None:
    """200, complete and explained is the only way to be ok: no other combination of what is seen gives it."""
    for end in ClientEnd:
        for http in (None, 200, 204, 400, 429, 500):
            for finish in (None, "stop"):
                for error in ((), ("500",)):
                    for malformed in (0, 1):
                        ok = decide(end, http, finish, error, malformed) is Outcome.OK
                        assert ok == (
                            end is ClientEnd.DONE and http == 200 and finish == "stop" and not error and not malformed
                        )
