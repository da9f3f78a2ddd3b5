"""A server's metrics page becomes our names, and a bad page becomes a reason."""

import pytest

from harness.telemetry.metrics import PRESETS, SERIES_NAMES, ScrapeFailed, fetch, read_metrics

VLLM = """# HELP vllm:num_requests_running Number of requests
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="m"} 0.25
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{model_name="m"} 1.2e+06
# TYPE seatrial_kv_blocks gauge
seatrial_kv_blocks{state="live"} 5
seatrial_kv_blocks{state="cached"} 7
seatrial_kv_blocks{state="limbo"} 1
seatrial_kv_blocks{state="free"} 51
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1"} 3
"""


def test_values_are_summed_over_labels_and_named_as_ours() -> None:
    found = read_metrics(VLLM, "vllm")
    assert found["server.running"] == 5.0
    assert found["kv.usage"] == 0.25
    assert found["server.prompt_tokens"] == 1.2e6


def test_block_states_are_told_apart_and_the_total_is_their_sum() -> None:
    found = read_metrics(VLLM, "vllm")
    assert (found["kv.live_blocks"], found["kv.cached_blocks"], found["kv.limbo_blocks"]) == (5.0, 7.0, 1.0)
    assert found["kv.total_blocks"] == 64.0


def test_a_name_that_the_page_lacks_is_left_out_and_never_zero() -> None:
    assert "server.waiting" not in read_metrics(VLLM, "vllm")


def test_the_older_name_of_kv_usage_is_understood() -> None:
    assert read_metrics('vllm:gpu_cache_usage_perc{model_name="m"} 0.5\n', "vllm") == {"kv.usage": 0.5}


def test_sglang_names_are_understood() -> None:
    page = 'sglang:num_running_reqs{m="a"} 4\nsglang:num_queue_reqs{m="a"} 9\nsglang:token_usage{m="a"} 0.28\n'
    assert read_metrics(page, "sglang") == {"server.running": 4.0, "server.waiting": 9.0, "kv.usage": 0.28}


def test_not_a_number_is_no_value() -> None:
    assert read_metrics("vllm:num_requests_running NaN\n", "vllm") == {}


@pytest.mark.parametrize("page", ["vllm:num_requests_running{ oops", "vllm:num_requests_running{} seven"])
def test_a_page_that_is_not_prometheus_text_is_a_reason(page: str) -> None:
    with pytest.raises(ScrapeFailed, match="not Prometheus text"):
        read_metrics(page, "vllm")


def test_a_page_of_another_kind_has_none_of_our_names() -> None:
    assert read_metrics("<html>404</html>", "vllm") == {}


def test_a_closed_port_is_a_reason_by_class() -> None:
    with pytest.raises(ScrapeFailed, match="ConnectionRefusedError"):
        fetch("http://127.0.0.1:9/metrics", 0.5)


def test_every_preset_uses_only_names_of_ours() -> None:
    assert all(set(preset) <= set(PRESETS["vllm"]) for preset in PRESETS.values())
    assert set(PRESETS["sglang"]) <= set(SERIES_NAMES)
