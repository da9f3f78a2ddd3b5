"""Requests of open loads are made in batches: which, when and with what prompt must not depend on how they fall."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.virtual import client_requests
from harness.virtual.client_requests import BATCH_REQUESTS, load_request, open_loop_requests
from runtime.device.hash_model import prompt_tokens
from scenarios.arrivals import arrivals
from scenarios.load import Load

PLAIN = {"rate": "20/s", "prompt_tokens": 9, "output_tokens": 3}
CHAT = Load.model_validate({**PLAIN, "id": "chat", "shared_prefix": 0.5, "malformed": 0.2, "stream": 0.5})
PROBE = Load.model_validate({**PLAIN, "id": "probe", "probe": True, "arrivals": "constant", "group": "g"})
USERS = Load.model_validate({**PLAIN, "id": "users", "arrivals": "closed", "users": 2})


@given(
    st.lists(st.sampled_from([CHAT, PROBE, USERS]), unique_by=lambda load: load.id),
    st.integers(0, 1 << 40),
    st.integers(1, 7),
    st.integers(1, 60),
)
def test_each_request_is_the_one_that_its_row_makes_by_itself(loads, seed, rows, tokens):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_requests, "BATCH_REQUESTS", rows)
        patch.setattr(client_requests, "BATCH_TOKENS", tokens)
        made = list(islice(open_loop_requests(loads, seed), 40))
    by_itself = sorted(
        (
            (row.t_s, load_request(load, row, tuple(prompt_tokens(row.parts))))
            for load in loads
            if load.arrivals != "closed"
            for row in islice(arrivals(load, seed), 40)
        ),
        key=lambda one: one[0],
    )
    assert made == by_itself[:40]


@pytest.mark.parametrize(("prompt", "ahead"), [(10, BATCH_REQUESTS), (20_000, 3), (60_000, 1)])
def test_no_more_is_made_ahead_than_a_batch_may_hold(monkeypatch: pytest.MonkeyPatch, prompt: int, ahead: int) -> None:
    seen = []

    def watched(load: Load, seed: int):
        for row in arrivals(load, seed):
            seen.append(row)
            yield row

    monkeypatch.setattr(client_requests, "arrivals", watched)
    due = open_loop_requests([Load.model_validate({**PLAIN, "id": "chat", "prompt_tokens": prompt})], 1)
    next(due)
    assert len(seen) == ahead
    for _ in range(ahead):
        next(due)
    assert len(seen) == 2 * ahead
