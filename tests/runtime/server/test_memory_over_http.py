"""Memory figures of a real runtime behind a real server, against what its client counts."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.build import build_served
from runtime.server.config import ADMIN_TOKEN_ENV, ServerConfig
from runtime.server.journal import Journal
from tests.runtime.server.conftest import TOKEN, Running

KNOBS = {"kv_blocks": 96, "block_tokens": 16, "token_budget": 256, "seqs_max": 4, "threads": 1}
PROMPTS = {name: list(range(at, at + 40)) for at, name in ((5, "a"), (60, "b"), (120, "c"))}
TOKENS = 300


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv(ADMIN_TOKEN_ENV, TOKEN)
    path = tmp_path / "outcomes.jsonl"
    outcomes = Journal(str(path))
    served: Any = build_served(KNOBS, outcomes)
    made = Running(served, path, ServerConfig(admin=True, stop_grace_s=0.2, outcomes=str(path)), outcomes)
    yield made
    made.stop()


def test_what_is_told_over_http_is_what_the_client_counts(running: Running) -> None:
    """While three requests run, and when all is over. In between the engine works on: so before <= told <= after."""
    counted = dict.fromkeys(PROMPTS, 0)
    came, finish = threading.Barrier(len(PROMPTS) + 1), threading.Event()
    usages: dict[str, Any] = {}

    def ask(name: str) -> None:
        client = running.openai()
        stream = client.completions.create(
            model=running.served.model,
            prompt=PROMPTS[name],
            max_tokens=TOKENS,
            stream=True,
            stream_options={"include_usage": True},
            temperature=0,
            extra_headers={"X-Request-Id": name},
            extra_body={"ignore_eos": True},
        )
        for chunk in stream:
            if chunk.choices:
                counted[name] += 1
                if counted[name] == 3:
                    came.wait(30)
                    finish.wait(30)
            if chunk.usage is not None:
                usages[name] = chunk.usage

    asking = [threading.Thread(target=ask, args=[name], daemon=True) for name in PROMPTS]
    for one in asking:
        one.start()
    came.wait(30)
    told = running.admin("GET", "/admin/memory").json()
    kv = pool_of(told)
    block_bytes, token_bytes = kv["total_bytes"] // 96, kv["total_bytes"] // 96 // 16
    requests = {one["request"]: one for one in told["requests"]}
    assert set(requests) == set(PROMPTS)
    for name, one in requests.items():
        tokens = one["asked_bytes"] // token_bytes
        assert len(PROMPTS[name]) + 3 <= tokens <= len(PROMPTS[name]) + TOKENS
        assert one["held_bytes"] == -(-tokens // 16) * block_bytes or one["held_bytes"] >= one["asked_bytes"]
    assert kv["asked_bytes"] == sum(one["asked_bytes"] for one in requests.values())
    assert kv["held_bytes"] == sum(one["held_bytes"] for one in requests.values()) <= kv["peak_bytes"]
    assert 0 < kv["internal_fragmentation"] < 0.5
    assert kv["allocs"] >= 3 and kv["latency_ns_p99"] > 0 and (kv["failed"], kv["leaks"]) == (0, 0)
    (tenant,) = told["tenants"]
    assert (tenant["requests"], tenant["asked_bytes"], tenant["allocs"]) == (3, kv["asked_bytes"], kv["allocs"])
    finish.set()
    for one in asking:
        one.join(60)
    running.empty()

    told = running.admin("GET", "/admin/memory").json()
    kv, prefix = pool_of(told), told["prefix"]
    assert (told["requests"], kv["asked_bytes"], kv["held_bytes"], kv["live"]) == ([], 0, 0, 0)
    blocks = [(len(PROMPTS[name]) + usages[name].completion_tokens - 1) // 16 for name in PROMPTS]
    assert prefix["published_bytes"] == prefix["cached_bytes"] == sum(blocks) * block_bytes
    assert (prefix["queries"], prefix["hits"]) == (sum(usage.prompt_tokens for usage in usages.values()), 0)

    running.openai().completions.create(model=running.served.model, prompt=PROMPTS["a"], max_tokens=1)
    running.empty()
    told = running.admin("GET", "/admin/memory").json()
    assert (told["prefix"]["queries"], told["prefix"]["hits"]) == (prefix["queries"] + 40, 32)
    kv = pool_of(told)
    # A page may have been measured after the request was let in and before it gave its blocks back.
    page = scraped(
        running,
        lambda samples: (
            (samples["vllm:prefix_cache_hits_total", ""], samples["seatrial_pool_asked_bytes", "kv"]) == (32, 0)
        ),
    )
    for name in ("allocs", "failed"):
        assert page[f"seatrial_pool_{name}_total", "kv"] == kv[name]
    for name in ("asked_bytes", "peak_bytes", "largest_free_bytes", "internal_fragmentation", "hit_rate", "leaks"):
        assert page[f"seatrial_pool_{name}", "kv"] == kv[name]
    assert page["seatrial_prefix_published_bytes", ""] == told["prefix"]["published_bytes"]
    assert page["seatrial_kv_tenant_allocs_total", tenant["tenant"]] == kv["allocs"]


def pool_of(told: dict[str, Any]) -> dict[str, Any]:
    (kv,) = [one for one in told["pools"] if one["pool"] == "kv"]
    found: dict[str, Any] = kv
    return found


def scraped(running: Running, ready: Any) -> dict[tuple[str, str], float]:
    """A page of /metrics: its figures are at most a second old, so it is read until it is `ready`."""
    for _ in range(5000):
        page = running.http.get("/metrics").text
        samples = {
            (sample.name, sample.labels.get("pool") or sample.labels.get("tenant") or ""): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }
        if ready(samples):
            return samples
        running.admin("GET", "/admin/info")
    raise AssertionError(f"never ready: {page}")
