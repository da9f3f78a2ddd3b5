"""The decision table, row by row."""

import pytest

from harness.load.outcome import ClientEnd, ClientObservation, Outcome, decide

TABLE = [
    (ClientObservation(ClientEnd.NOT_SENT), Outcome.DROPPED),
    (ClientObservation(ClientEnd.UNREACHED), Outcome.HTTP_ERROR),
    (ClientObservation(ClientEnd.STOPPED, 200, "stop"), Outcome.UNFINISHED),
    (ClientObservation(ClientEnd.CANCELLED, 200), Outcome.CANCELLED),
    (ClientObservation(ClientEnd.CANCELLED, None), Outcome.CANCELLED),
    (ClientObservation(ClientEnd.DEADLINE, 200, "stop"), Outcome.TIMEOUT),
    (ClientObservation(ClientEnd.CUT), Outcome.TRUNCATED),
    (ClientObservation(ClientEnd.CUT, malformed=1), Outcome.MALFORMED),
    (ClientObservation(ClientEnd.DONE, 429), Outcome.REFUSED),
    (ClientObservation(ClientEnd.CUT, 429), Outcome.REFUSED),
    (ClientObservation(ClientEnd.DONE, 408), Outcome.TIMEOUT),
    (ClientObservation(ClientEnd.DONE, 504), Outcome.TIMEOUT),
    (ClientObservation(ClientEnd.DONE, 503), Outcome.HTTP_ERROR),
    (ClientObservation(ClientEnd.DONE, 400), Outcome.HTTP_ERROR),
    (ClientObservation(ClientEnd.DONE, 302), Outcome.HTTP_ERROR),
    (ClientObservation(ClientEnd.DONE, 200, "stop", error_words=("500", "server_error")), Outcome.INBAND_ERROR),
    (ClientObservation(ClientEnd.DONE, 200, None, error_words=("hang", "Timeout_Error")), Outcome.TIMEOUT),
    (ClientObservation(ClientEnd.DONE, 200, None, error_words=("429",)), Outcome.REFUSED),
    (ClientObservation(ClientEnd.CLOSED, 200, None, error_words=("500",), malformed=1), Outcome.INBAND_ERROR),
    (ClientObservation(ClientEnd.DONE, 200, "stop", malformed=1), Outcome.MALFORMED),
    (ClientObservation(ClientEnd.CUT, 200, "stop"), Outcome.TRUNCATED),
    (ClientObservation(ClientEnd.CLOSED, 200, "stop"), Outcome.TRUNCATED),
    (ClientObservation(ClientEnd.DONE, 200, None), Outcome.NO_FINISH_REASON),
    (ClientObservation(ClientEnd.DONE, 200, "stop"), Outcome.OK),
    (ClientObservation(ClientEnd.DONE, 200, "length"), Outcome.OK),
]


@pytest.mark.parametrize(("seen", "outcome"), TABLE)
def test_each_row_of_the_table(seen: ClientObservation, outcome: Outcome) -> None:
    assert decide(seen) is outcome


def test_the_table_reaches_every_outcome() -> None:
    assert {outcome for _, outcome in TABLE} == set(Outcome)


def test_only_one_row_in_the_table_is_ok_under_any_other_circumstance() -> None:
    """200, complete and explained is the only way to be ok: no other combination of what is seen gives it."""
    for end in ClientEnd:
        for http in (None, 200, 204, 400, 429, 500):
            for finish in (None, "stop"):
                for error in ((), ("500",)):
                    for malformed in (0, 1):
                        ok = decide(ClientObservation(end, http, finish, error, malformed)) is Outcome.OK
                        assert ok == (
                            end is ClientEnd.DONE and http == 200 and finish == "stop" and not error and not malformed
                        )
