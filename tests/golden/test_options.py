"""Every option of a completion, over HTTP: the answer is the golden one, and what the option makes of it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from assertions.corruption import ROUNDING_BELOW
from harness.oracle.choice import Sampling
from harness.oracle.model import Model
from harness.oracle.reply import Ask, replies
from runtime.models.default import default_model
from tests.golden import files
from tests.golden.kinds import EMBEDDED, OUTPUT
from tests.golden.trial import plan_of, server

GOLDEN = files.read(EMBEDDED)
KNOWN = next(reply for reply in GOLDEN.replies if reply.length == 17)
PROMPT = bytes(GOLDEN.prompt(KNOWN)[1:]).decode()
TEXT = bytes(KNOWN.tokens).decode()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with server(plan_of("first-soak"), tmp_path_factory.mktemp("served")) as url, httpx.Client(base_url=url) as made:
        yield made


def said(client: httpx.Client, **options: Any) -> dict[str, Any]:
    """The only choice of a greedy completion with these options."""
    body = {"prompt": PROMPT, "max_tokens": OUTPUT, "temperature": 0, "return_token_ids": True, **options}
    answer = client.post("/v1/completions", json=body, timeout=120.0)
    assert answer.status_code == 200, answer.text
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


def test_greedy_text_and_ids_are_golden_whatever_form_the_prompt_has(client: httpx.Client) -> None:
    for prompt in (PROMPT, [PROMPT], GOLDEN.prompt(KNOWN), [GOLDEN.prompt(KNOWN)]):
        choice = said(client, prompt=prompt)
        assert (choice["text"], choice["token_ids"], choice["finish_reason"]) == (TEXT, KNOWN.tokens, "length")
    assert said(client, max_tokens=5)["text"] == TEXT[:5]


def test_log_probabilities_are_golden_and_at_temperature_1(client: httpx.Client) -> None:
    for count in range(6):
        shown = said(client, logprobs=count)["logprobs"]
        assert shown["tokens"] == list(TEXT)
        assert shown["token_logprobs"] == pytest.approx(KNOWN.logprobs, abs=ROUNDING_BELOW)
        top = {chr(token): value for token, value in KNOWN.top[:count]}
        assert shown["top_logprobs"][-1] == pytest.approx(top, abs=ROUNDING_BELOW)


def test_a_stop_text_ends_before_itself_and_a_stop_token_with_the_golden_tokens_before_it(client: httpx.Client) -> None:
    for at in (3, 9):
        for stop in (TEXT[at : at + 2], ["never said!", TEXT[at : at + 2]]):
            choice = said(client, stop=stop)
            assert (choice["text"], choice["finish_reason"]) == (TEXT[: TEXT.index(TEXT[at : at + 2])], "stop")
        token = KNOWN.tokens[at]
        choice = said(client, stop_token_ids=[token])
        assert choice["finish_reason"] == "stop"
        assert choice["token_ids"][: KNOWN.tokens.index(token)] == KNOWN.tokens[: KNOWN.tokens.index(token)]
        assert len(choice["token_ids"]) <= KNOWN.tokens.index(token) + 1


def test_seed_temperature_and_top_p_name_the_tokens(client: httpx.Client) -> None:
    options = [Sampling(0.7, 1.0, 5), Sampling(1.0, 0.8, 6), Sampling(2.0, 0.5, -7)]
    known = replies(Model(default_model()), [Ask(GOLDEN.prompt(KNOWN), OUTPUT, one) for one in options])
    for one, reply in zip(options, known, strict=True):
        assert min(reply.margins) > ROUNDING_BELOW, "no draw is a matter of rounding"
        choice = said(client, temperature=one.temperature, top_p=one.top_p, seed=one.seed, logprobs=0)
        assert choice["token_ids"] == reply.tokens
        assert choice["logprobs"]["token_logprobs"] == pytest.approx(reply.logprobs, abs=ROUNDING_BELOW)
