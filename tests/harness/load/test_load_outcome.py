"""The decision table, row by row."""

import pytest

from harness.load.outcome import End, Outcome, Seen, decide

TABLE = [
    (Seen(End.NOT_SENT), Outcome.DROPPED),
    (Seen(End.UNREACHED), Outcome.HTTP_ERROR),
    (Seen(End.STOPPED, 200, "stop"), Outcome.UNFINISHED),
    (Seen(End.CANCELLED, 200), Outcome.CANCELLED),
    (Seen(End.CANCELLED, None), Outcome.CANCELLED),
    (Seen(End.DEADLINE, 200, "stop"), Outcome.TIMEOUT),
    (Seen(End.CUT), Outcome.TRUNCATED),
    (Seen(End.CUT, malformed=1), Outcome.MALFORMED),
    (Seen(End.DONE, 429), Outcome.REFUSED),
    (Seen(End.CUT, 429), Outcome.REFUSED),
    (Seen(End.DONE, 408), Outcome.TIMEOUT),
    (Seen(End.DONE, 504), Outcome.TIMEOUT),
    (Seen(End.DONE, 503), Outcome.HTTP_ERROR),
    (Seen(End.DONE, 400), Outcome.HTTP_ERROR),
    (Seen(End.DONE, 302), Outcome.HTTP_ERROR),
    (Seen(End.DONE, 200, "stop", error_words=("500", "server_error")), Outcome.INBAND_ERROR),
    (Seen(End.DONE, 200, None, error_words=("hang", "Timeout_Error")), Outcome.TIMEOUT),
    (Seen(End.DONE, 200, None, error_words=("429",)), Outcome.REFUSED),
    (Seen(End.CLOSED, 200, None, error_words=("500",), malformed=1), Outcome.INBAND_ERROR),
    (Seen(End.DONE, 200, "stop", malformed=1), Outcome.MALFORMED),
    (Seen(End.CUT, 200, "stop"), Outcome.TRUNCATED),
    (Seen(End.CLOSED, 200, "stop"), Outcome.TRUNCATED),
    (Seen(End.DONE, 200, None), Outcome.NO_FINISH_REASON),
    (Seen(End.DONE, 200, "stop"), Outcome.OK),
    (Seen(End.DONE, 200, "length"), Outcome.OK),
]


@pytest.mark.parametrize(("seen", "outcome"), TABLE)
def test_each_row_of_the_table(seen: Seen, outcome: Outcome) -> None:
    assert decide(seen) is outcome


def test_the_table_reaches_every_outcome() -> None:
    assert {outcome for _, outcome in TABLE} == set(Outcome)


def test_only_one_row_in_the_table_is_ok_under_any_other_circumstance() -> None:
    """200, complete and explained is the only way to be ok: no other combination of what is seen gives it."""
    for end in End:
        for http in (None, 200, 204, 400, 429, 500):
            for finish in (None, "stop"):
                for error in ((), ("500",)):
                    for malformed in (0, 1):
                        ok = decide(Seen(end, http, finish, error, malformed)) is Outcome.OK
                        assert ok == (
                            end is End.DONE and http == 200 and finish == "stop" and not error and not malformed
                        )
