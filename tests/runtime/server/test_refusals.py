"""What is not served is refused by name; what is full says when to come back."""

from typing import Any

import pytest

from runtime.core.messages import End, Submit
from tests.runtime.server.conftest import Start
from tests.runtime.server.fake import FakeServed

PATHS: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "x"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
}


@pytest.fixture
def post(start: Start) -> Any:
    http = start().http

    def send(path: str, **more: Any) -> tuple[int, dict[str, Any]]:
        reply = http.post(path, json={**PATHS[path], **more})
        return reply.status_code, reply.json().get("error", {})

    return send


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("n", 2),
        ("best_of", 2),
        ("n", True),
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("logit_bias", {"50256": -100}),
        ("echo", True),
        ("suffix", "!"),
        ("presence_penalty", 0.5),
        ("temperature", 3),
        ("temperature", "hot"),
        ("top_p", 0),
        ("max_tokens", 0),
        ("max_tokens", True),
        ("stop", ["a", "b", "c", "d", "e"]),
        ("stop", ""),
        ("seed", 1.5),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("tempratur", 1),
        ("max_tokens", 10**9),
    ],
)
def test_a_field_that_cannot_be_served_is_a_400_that_names_it(post: Any, path: str, param: str, value: object) -> None:
    http, error = post(path, **{param: value})
    assert http == 400
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    # A context that is too small is a matter of the prompt, as with OpenAI.
    wanted = {"prompt", "messages"} if error["code"] == "context_length_exceeded" else {param}
    assert error["param"] in wanted


@pytest.mark.parametrize("path", PATHS)
def test_fields_without_effect_and_neutral_values_are_accepted(post: Any, path: str) -> None:
    neutral = {
        "n": 1,
        "user": "u",
        "metadata": {"a": "b"},
        "tools": [],
        "logit_bias": {},
        "suffix": None,
        "echo": False,
    }
    assert post(path, **neutral, presence_penalty=0.0, response_format={"type": "text"}, temperature=None)[0] == 200


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"prompt": ["a", "b"]}, "prompt", "batch_prompt"),
        ({"prompt": [[1], [2]]}, "prompt", "batch_prompt"),
        ({"prompt": ""}, "prompt", "invalid_value"),
        ({"prompt": []}, "prompt", "invalid_value"),
        ({"prompt": [512]}, "prompt", "invalid_value"),
        ({"prompt": [-1]}, "prompt", "invalid_value"),
        ({"prompt": None}, "prompt", "invalid_value"),
        ({"prompt": {"a": 1}}, "prompt", "invalid_value"),
        ({"logprobs": 6}, "logprobs", "invalid_value"),
        ({"prompt": "x" * 20_000}, "prompt", "context_length_exceeded"),
    ],
)
def test_completion_refusals(post: Any, more: dict[str, Any], param: str, code: str) -> None:
    http, error = post("/v1/completions", **more)
    assert (http, error["param"], error["code"]) == (400, param, code)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 6}, "top_logprobs"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens"),
    ],
)
def test_chat_refusals(post: Any, more: dict[str, Any], param: str) -> None:
    http, error = post("/v1/chat/completions", **more)
    assert (http, error["param"]) == (400, param)


def test_a_wrong_name_gets_a_hint(post: Any) -> None:
    assert 'did you mean "temperature"?' in post("/v1/completions", tempratur=1)[1]["message"]


def test_another_model_is_404(post: Any) -> None:
    http, error = post("/v1/completions", model="gpt-9")
    assert (http, error["param"], error["code"]) == (404, "model", "model_not_found")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null", b'{"prompt": NaN}'])
def test_a_body_that_is_no_object_is_400_and_leaves_a_row(start: Start, body: bytes) -> None:
    running = start()
    reply = running.http.post("/v1/completions", content=body, headers={"X-Request-Id": "bad"})
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"
    row = running.rows("served")[0]
    assert (row["request"], row["outcome"], row["admit_ns"]) == ("bad", "http_error", None)


def test_a_body_that_is_too_long_is_413(start: Start) -> None:
    running = start(body_bytes_max=100)
    assert running.http.post("/v1/completions", json={"prompt": "x" * 200}).status_code == 413


def test_unknown_paths_and_methods_have_the_same_shape(start: Start) -> None:
    http = start().http
    assert (http.get("/nothing").status_code, http.get("/nothing").json()["error"]["code"]) == (404, "not_found")
    assert http.get("/v1/completions").json()["error"]["code"] == "method_not_allowed"
    assert http.get("/admin/faults").status_code == 404


def test_a_full_mailbox_is_429_with_retry_after(start: Start) -> None:
    running = start(by_hand=True, submits_max=1)
    first = running.connect({"prompt": "x"})
    running.served.mailbox.wait(10)
    reply = running.http.post("/v1/completions", json={"prompt": "y"}, headers={"X-Request-Id": "late"})
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    assert reply.json()["error"]["code"] == "queue_full"
    row = running.rows("served")[0]
    assert (row["request"], row["outcome"]) == ("late", "refused")
    assert running.rows("mark")[0]["name"] == "mailbox.full"
    first.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("end", "retry"),
    [
        (End("refused", 429, "out_of_blocks", "no blocks"), "1"),
        (End("timeout", 504, "deadline_exceeded", "late"), None),
        (End("http_error", 500, "launch_failed", "failed"), None),
    ],
)
def test_an_end_before_the_first_token_is_a_true_http_error(
    start: Start, stream: bool, end: End, retry: str | None
) -> None:
    running = start(by_hand=True)
    sock = running.connect({"prompt": "x", "stream": stream})
    submit = running.served.mail(Submit)
    assert isinstance(submit, Submit)
    running.served.end(submit.request_id, end)
    head = sock.recv(65536).decode()
    assert head.startswith(f"HTTP/1.1 {end.http} ")
    assert ("retry-after: 1" in head.lower()) == (retry is not None)
    sock.close()
    row = running.rows("served")[0]
    assert (row["request"], row["outcome"], row["code"]) == ("raw", end.outcome, end.code)


def test_the_deadline_is_the_configured_one_or_the_clients_smaller_one(start: Start) -> None:
    running = start(request_timeout_s=100)
    for header in (None, "2.5", "1000", "soon", "-1"):
        headers = {"X-Request-Timeout": header} if header else {}
        running.http.post("/v1/completions", json={"prompt": "x"}, headers=headers)
    submits = [each for each in running.served.seen if isinstance(each, Submit)]
    allowed = [(each.deadline_ns - each.arrive_ns) / 1e9 for each in submits]
    assert allowed == [100, 2.5, 100, 100, 100]


def test_when_the_engine_says_nothing_long_after_the_deadline_the_server_does(start: Start) -> None:
    running = start(by_hand=True, request_timeout_s=0.01, answer_grace_s=0.01)
    reply = running.http.post("/v1/completions", json={"prompt": "x"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert running.rows("served")[0]["outcome"] == "timeout"


def test_groups_come_from_keys_and_a_stranger_is_401(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_KEY", "sk-batch")
    running = start(keys={"sk-chat": "chat", "env:BATCH_KEY": "batch"})
    for key, http in (("sk-chat", 200), ("sk-batch", 200), ("sk-no", 401)):
        headers = {"Authorization": f"Bearer {key}"}
        assert running.http.post("/v1/completions", json={"prompt": "x"}, headers=headers).status_code == http
    assert running.http.post("/v1/completions", json={"prompt": "x"}).status_code == 401
    assert [each.group for each in running.served.seen if isinstance(each, Submit)] == ["chat", "batch"]


def test_without_a_seed_the_draw_depends_on_the_clients_id_alone(start: Start) -> None:
    running = start()
    for name in ("a", "b", "a"):
        running.http.post("/v1/completions", json={"prompt": "x"}, headers={"X-Request-Id": name})
    seeds = [each.sampling.seed for each in running.served.seen if isinstance(each, Submit)]
    assert seeds[0] == seeds[2] != seeds[1]


def test_the_fake_is_a_served() -> None:
    from runtime.server.ports import RuntimeHandle

    served: RuntimeHandle = FakeServed()
    assert served.model == "fake"
