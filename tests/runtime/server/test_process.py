"""The server process: health from progress, one error for each open request at the end, and exit codes."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.core.errors import DeviceLost
from runtime.core.messages import Submit
from runtime.server.flags import EXIT_FATAL, EXIT_STOPPED
from tests.runtime.server.conftest import Start
from tests.runtime.server.fake import says
from tests.runtime.server.test_streams import LONG, events, read_all


@pytest.mark.parametrize("silently", [False, True])
def test_fatal_is_one_last_error_each_and_exit_70(start: Start, silently: bool) -> None:
    """`silently`: the engine's thread died and spoke no last word; the server does."""
    running = start(by_hand=True, fatal_grace_s=5.0)
    streaming = running.connect({**LONG, "prompt": "hello"})
    running.served.mail(Submit)
    running.served.turn()
    waiting = running.connect({"prompt": "x"})
    running.served.mail(Submit)
    running.served.die(silently=silently)
    assert running.join() == EXIT_FATAL
    first, error, done = events(read_all(streaming))
    assert first["choices"][0]["text"] == "H"
    assert (error["error"]["code"], done) == ("engine_dead", "[DONE]")
    assert read_all(waiting).startswith(b"HTTP/1.1 503 ")
    rows = running.rows("served")
    assert [(row["outcome"], row["code"]) for row in rows] == [("fatal", "engine_dead")] * 2
    streaming.close()
    waiting.close()


def test_no_200_begins_after_fatal(start: Start) -> None:
    running = start(by_hand=True, fatal_grace_s=5.0)
    held = running.connect({"prompt": "x"})
    running.served.mail(Submit)
    seen: list[int] = []
    shut = running.on_loop(lambda: running.process.admission.closed_reason())
    assert shut is None

    def die_and_ask() -> None:
        # On the loop, so that the server has not ended yet when admission is read.
        running.served.fatal = DeviceLost("poisoned")
        problem = running.process.admission.closed_reason()
        assert problem is not None
        seen.append(problem.http)

    running.on_loop(die_and_ask)
    assert running.join() == EXIT_FATAL
    assert seen == [503]
    held.close()


def test_stop_lets_those_inside_end(start: Start) -> None:
    running = start(says("abc"), by_hand=True, stop_grace_s=5.0)
    sock = running.connect(LONG)
    running.served.mail(Submit)
    running.served.turn()
    running.loop.call_soon_threadsafe(running.process.stop)
    while running.on_loop(lambda: running.process.admission.closed) is None:
        pass
    for _ in range(3):
        running.served.turn()
    assert running.join() == EXIT_STOPPED
    assert events(read_all(sock))[-1] == "[DONE]"
    assert running.rows("served")[0]["outcome"] == "ok"
    sock.close()


def test_stop_tells_those_who_take_too_long(start: Start) -> None:
    running = start(by_hand=True, stop_grace_s=0.05)
    sock = running.connect({"prompt": "x"})
    running.served.mail(Submit)
    running.loop.call_soon_threadsafe(running.process.stop)
    assert running.join() == EXIT_STOPPED
    assert b"shutting_down" in read_all(sock)
    row = running.rows("served")[0]
    assert (row["outcome"], row["code"]) == ("http_error", "shutting_down")
    sock.close()


def test_health_is_false_when_work_is_open_and_nothing_moves(start: Start) -> None:
    running = start(by_hand=True, health_stall_s=0.05)
    assert running.http.get("/health").json() == {"status": "ok"}
    sock = running.connect({"prompt": "hello"})
    running.served.mail(Submit)
    while running.http.get("/health").status_code == 200:
        pass
    assert "no progress" in running.http.get("/health").json()["status"]
    running.served.turn()
    running.served.env.clock = Frozen(running.served.status.progress_ns)
    assert running.http.get("/health").status_code == 200
    sock.close()


class Frozen:
    def __init__(self, t_ns: int) -> None:
        self.t_ns = t_ns

    def now_ns(self) -> int:
        return self.t_ns


def test_metrics_parse_and_carry_vllms_names(start: Start) -> None:
    running = start(says("abc"))
    running.http.post("/v1/completions", json={"prompt": "xy"})
    running.served.env.counters.hit("kv.evict", 2)
    reply = running.http.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    assert {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_requests_swapped",
        "vllm:kv_cache_usage_perc",
        "vllm:prompt_tokens",
        "vllm:generation_tokens",
        "vllm:num_preemptions",
        "vllm:request_success",
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:e2e_request_latency_seconds",
        "seatrial_kv_blocks",
        "seatrial_marks",
        "seatrial_fault_active",
        "seatrial_fault_fired",
    } <= set(families)
    samples = {(each.name, *sorted(each.labels.items())): each.value for f in families.values() for each in f.samples}
    model = ("model_name", "fake")
    assert samples["vllm:num_preemptions_total", model] == 3
    assert samples["vllm:request_success_total", ("finished_reason", "stop"), model] == 1
    assert samples["vllm:time_to_first_token_seconds_count", model] == 1
    assert samples["vllm:inter_token_latency_seconds_count", model] == 3
    assert samples["seatrial_marks_total", ("name", "kv.evict")] == 2
    assert sum(value for key, value in samples.items() if key[0] == "seatrial_kv_blocks") == 8


def test_events_of_a_step_without_outputs_reach_the_record(start: Start) -> None:
    running = start(by_hand=True)
    running.served.env.tell("guard_trip", "device.late", "step 3: 0.7 s in flight")
    running.served.turn()
    event = running.rows("event")[0]
    assert (event["kind"], event["value"]) == ("guard_trip", None)
    assert event["detail"] == "device.late: step 3: 0.7 s in flight"
