"""The official client against every shape we serve."""

import asyncio
import threading
from typing import Any

import openai
import pytest

from runtime.core.messages import End, Submit
from tests.runtime.server.conftest import Start
from tests.runtime.server.fake import says

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}


def test_completion_in_one_piece(start: Start) -> None:
    answer = start().openai().completions.create(model="fake", prompt="hello", max_tokens=99)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("HELLO", "stop")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 6, 11)


def test_completion_streamed_with_usage(start: Start) -> None:
    stream = (
        start()
        .openai()
        .completions.create(
            model="fake", prompt="hello", max_tokens=99, stream=True, stream_options={"include_usage": True}
        )
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == "HELLO"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]][-2:] == [None, "stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 6


def test_stream_without_usage_has_none(start: Start) -> None:
    chunks = list(start().openai().completions.create(model="fake", prompt="hi", stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_chat_in_one_piece(start: Start) -> None:
    messages: Any = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "hé"}]}]
    answer = start().openai().chat.completions.create(model="fake", messages=messages)
    assert answer.choices[0].message.content == "SYSTEM: S\nUSER: Hé\n"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"


def test_chat_streamed_with_usage(start: Start) -> None:
    stream = (
        start(says("grüße 😀"))
        .openai()
        .chat.completions.create(
            model="fake",
            messages=[{"role": "user", "content": "x"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "grüße 😀"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None


async def _chat_async(url: str) -> str:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="fake", messages=[{"role": "user", "content": "x"}], stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


def test_chat_with_the_async_client(start: Start) -> None:
    assert asyncio.run(_chat_async(start(says("abc")).url)) == "abc"


@pytest.mark.parametrize("stream", [False, True])
def test_max_tokens_ends_with_length(start: Start, stream: bool) -> None:
    create: Any = start().openai().completions.create
    answer = create(model="fake", prompt="hello", max_tokens=2, stream=stream)
    chunks = list(answer) if stream else [answer]
    text = "".join(chunk.choices[0].text for chunk in chunks)
    assert (text, chunks[-1].choices[0].finish_reason) == ("HE", "length")


def test_max_completion_tokens_is_the_same_for_chat(start: Start) -> None:
    answer = (
        start(says("hello"))
        .openai()
        .chat.completions.create(model="fake", messages=[{"role": "user", "content": "x"}], max_completion_tokens=3)
    )
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("hel", "length")


@pytest.mark.parametrize("stop", ["lo w", ["never", "lo w"]])
def test_a_stop_string_across_tokens_ends_a_stream(start: Start, stop: str | list[str]) -> None:
    running = start(says("hello world and a long tail that nobody shall see"))
    chunks = list(running.openai().completions.create(model="fake", prompt="x", max_tokens=99, stop=stop, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "hel"
    assert chunks[-1].choices[0].finish_reason == "stop"
    row = running.rows("served")[0]
    assert (row["outcome"], row["finish"]) == ("ok", "stop")


def test_a_stop_string_ends_a_plain_answer_and_usage_is_the_ledgers(start: Start) -> None:
    running = start(says("hello world and a long tail"))
    answer = running.openai().completions.create(model="fake", prompt="x", max_tokens=99, stop=[" wor"])
    assert answer.choices[0].text == "hello"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == running.rows("served")[0]["tokens_out"]


def test_completion_logprobs(start: Start) -> None:
    answer = start().openai().completions.create(model="fake", prompt="ab", max_tokens=9, logprobs=2)
    said = answer.choices[0].logprobs
    assert said is not None
    assert said.tokens == ["A", "B", "token_id:256"]
    assert said.token_logprobs == [-0.5, -0.5, -0.5]
    assert said.text_offset == [0, 1, 2]
    assert said.top_logprobs is not None
    assert said.top_logprobs[0] == {"A": -0.5, "B": -1.5}


def test_alternatives_without_text_of_their_own_keep_two_names(start: Start) -> None:
    """Bytes 0xFE and 0xFF both read U+FFFD; under one name the margin between them would be lost."""
    answer = start(says(b"\xfe")).openai().completions.create(model="fake", prompt="x", max_tokens=1, logprobs=2)
    said = answer.choices[0].logprobs
    assert said is not None
    assert said.top_logprobs is not None
    assert said.top_logprobs[0] == {"token_id:254": -0.5, "token_id:255": -1.5}


@pytest.mark.parametrize("stream", [False, True])
def test_chat_logprobs(start: Start, stream: bool) -> None:
    answer: Any = (
        start(says("ab"))
        .openai()
        .chat.completions.create(
            model="fake",
            messages=[{"role": "user", "content": "x"}],
            logprobs=True,
            top_logprobs=2,
            max_tokens=2,
            stream=stream,
        )
    )
    choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
    entries = [entry for choice in choices if choice.logprobs for entry in choice.logprobs.content or []]
    assert [(entry.token, entry.bytes, len(entry.top_logprobs)) for entry in entries] == [
        ("a", [97], 2),
        ("b", [98], 2),
    ]


def test_prompts_as_text_as_ids_and_as_a_list_of_one_are_the_same(start: Start) -> None:
    client = start().openai()
    prompts: list[Any] = ["hi", [104, 105], ["hi"], [[104, 105]]]
    texts = [client.completions.create(model="fake", prompt=each).choices[0].text for each in prompts]
    assert texts == ["HI"] * 4


def test_token_ids_are_shown_when_asked_for(start: Start) -> None:
    running = start(says("ab"))
    answer = running.http.post("/v1/completions", json={"prompt": "x", "return_token_ids": True}).json()
    assert answer["choices"][0]["token_ids"] == [97, 98, 256]


def test_ignore_eos_goes_on_to_the_bound(start: Start) -> None:
    running = start(lambda _: [256, 97, 256, 98, 99])
    answer = running.http.post("/v1/completions", json={"prompt": "x", "ignore_eos": True, "max_tokens": 4}).json()
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(("path", "body"), [("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", CHAT)])
def test_a_lower_priority_of_the_request_goes_earlier_as_in_vllm(start: Start, path: str, body: dict[str, Any]) -> None:
    running = start(says("ab"))
    for asked, expected in ((None, 0), (-3, 3), (5, -5)):
        sent = body if asked is None else body | {"priority": asked}
        assert running.http.post(path, json=sent).status_code == 200
        submits = [mail for mail in running.served.seen if isinstance(mail, Submit)]
        assert submits[-1].priority == expected
    assert running.http.post(path, json=body | {"priority": "high"}).status_code == 400


def test_models(start: Start) -> None:
    models = start().openai().models.list().data
    assert [(model.id, model.object) for model in models] == [("fake", "model")]


def test_an_in_band_error_raises_in_the_client(start: Start) -> None:
    running = start(by_hand=True)
    stream = running.openai().completions.create
    caught: list[Exception] = []

    def read() -> None:
        try:
            list(stream(model="fake", prompt="hello", max_tokens=99, stream=True))
        except openai.APIError as error:
            caught.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    submit = running.served.mail(Submit)
    assert isinstance(submit, Submit)
    running.served.turn()
    running.served.end(submit.request_id, End("http_error", 500, "launch_failed", "its launch failed twice"))
    reader.join(10)
    assert "its launch failed twice" in str(caught[0])
    row = running.rows("served")[0]
    assert (row["outcome"], row["code"]) == ("inband_error", "launch_failed")
    assert running.rows("mark")[0]["name"] == "stream.inband_error"
