"""Reads a server's /metrics page (vLLM's or SGLang's names) into our own series names.

Only the families in use are parsed, because a page has thousands of lines and the parser is slow. Values are summed
over labels, for several engines or models behind one port.
"""

import http.client
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from harness.telemetry.memory_series import KV, POOL, PREFIX, TENANT, of_tenant

BODY_BYTES_MAX = 8 << 20


@dataclass(frozen=True)
class MetricSource:
    """The source of one of our series: unit, kind, and the server's sample names, of which the first present is
    used."""

    unit: str
    kind: str
    samples: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)  # only samples with these labels; {}: all
    by: str = ""  # a series for each value of this label; "": one over all
    ours: bool = False  # only the built-in runtime has it, so it is not recorded as absent elsewhere


def _memory() -> dict[str, MetricSource]:
    """The series of KV and the prefix cache, which only the built-in runtime has."""
    tables = [(one, "") for one in (*KV, *PREFIX)] + [(one, "tenant") for one in TENANT]
    tables += [(one, "pool") for one in POOL]
    return {one.name: MetricSource(one.unit, one.kind, (one.sample,), one.labels, by, True) for one, by in tables}


# Names: vLLM's docs/design/metrics.md (gpu_cache_usage_perc is the old one); SGLang's production metrics page. SGLang
# documents no counter of retractions, so it has no `server.preemptions`.
PRESETS: dict[str, dict[str, MetricSource]] = {
    "vllm": {
        "server.running": MetricSource("requests", "gauge", ("vllm:num_requests_running",)),
        "server.waiting": MetricSource("requests", "gauge", ("vllm:num_requests_waiting",)),
        "kv.usage": MetricSource("share", "gauge", ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")),
        "server.prompt_tokens": MetricSource("tokens", "counter", ("vllm:prompt_tokens_total",)),
        "server.generation_tokens": MetricSource("tokens", "counter", ("vllm:generation_tokens_total",)),
        "server.preemptions": MetricSource("requests", "counter", ("vllm:num_preemptions_total",)),
        "server.finished": MetricSource("requests", "counter", ("vllm:request_success_total",), by="finished_reason"),
        "server.open_requests": MetricSource("requests", "gauge", ("seatrial_open_requests",), ours=True),
        "server.ended": MetricSource("requests", "counter", ("seatrial_requests_total",), by="outcome", ours=True),
        "kv.live_blocks": MetricSource("blocks", "gauge", ("seatrial_kv_blocks",), {"state": "live"}),
        "kv.cached_blocks": MetricSource("blocks", "gauge", ("seatrial_kv_blocks",), {"state": "cached"}),
        "kv.limbo_blocks": MetricSource("blocks", "gauge", ("seatrial_kv_blocks",), {"state": "limbo"}),
        "kv.total_blocks": MetricSource("blocks", "gauge", ("seatrial_kv_blocks",)),
        "server.steps": MetricSource("steps", "counter", ("seatrial_steps_total",), ours=True),
        "server.fallbacks": MetricSource("count", "counter", ("seatrial_fallbacks_total",), ours=True),
        **_memory(),
    },
    "sglang": {
        "server.running": MetricSource("requests", "gauge", ("sglang:num_running_reqs",)),
        "server.waiting": MetricSource("requests", "gauge", ("sglang:num_queue_reqs",)),
        "kv.usage": MetricSource("share", "gauge", ("sglang:token_usage",)),
        "server.prompt_tokens": MetricSource("tokens", "counter", ("sglang:prompt_tokens_total",)),
        "server.generation_tokens": MetricSource("tokens", "counter", ("sglang:generation_tokens_total",)),
    },
}
SERIES_NAMES = tuple(name for name, want in PRESETS["vllm"].items() if not want.ours and not want.by)
"""Names of the series that every target should have. One that is not on the page is recorded as absent."""

GAUGES = ("server.running", "server.waiting", "kv.usage")
"""The gauges that show that all resources were returned; judge reclamation needs one of them."""


class ScrapeFailed(Exception):
    """The page could not be fetched or parsed. The text is a class of failure without addresses."""


def read_metrics(text: str, preset: str) -> dict[str, float]:
    """Parse a page into values by our series names; absent series are left out. Raises ScrapeFailed."""
    from prometheus_client.parser import text_string_to_metric_families

    wanted = PRESETS[preset]
    names = {name for want in wanted.values() for name in want.samples}
    kept = "\n".join(row for row in text.splitlines() if _name(row) in names)
    sums: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    try:
        for family in text_string_to_metric_families(kept + "\n"):
            for sample in family.samples:
                sums.setdefault(sample.name, []).append((sample.labels, float(sample.value)))
    except (ValueError, IndexError, KeyError) as error:
        raise ScrapeFailed(f"not Prometheus text: {type(error).__name__}") from error
    found: dict[str, float] = {}
    for ours, want in wanted.items():
        for name, value in _values(sums, ours, want):
            if math.isfinite(value):
                found[name] = value
    return found


def wanted_of(name: str, preset: str) -> MetricSource:
    """The metric that a name found by `read_metrics` stands for; `[tenant]` behind the name is one tenant's."""
    return PRESETS[preset][name.partition("[")[0]]


def fetch(url: str, timeout_s: float) -> str:
    """Fetch the page without proxy, redirect or retry: a slow page must not delay the sampler."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", parts.path or "/", headers={"User-Agent": "seatrial/0.1 (metrics)"})
        response = connection.getresponse()
        if response.status != 200:
            raise ScrapeFailed(f"HTTP {response.status}")
        return response.read(BODY_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise ScrapeFailed(type(error).__name__) from error
    finally:
        connection.close()


def _name(row: str) -> str:
    """The sample name at the start of a line. TYPE and HELP lines are not needed."""
    end = min((at for at in (row.find("{"), row.find(" ")) if at >= 0), default=len(row))
    return row[:end]


def _values(
    sums: Mapping[str, list[tuple[Mapping[str, str], float]]], ours: str, want: MetricSource
) -> Iterator[tuple[str, float]]:
    """Sums over the samples that are wanted: one, or one for each value of the label `want.by`."""
    for name in want.samples:
        matching = [
            (labels, value)
            for labels, value in sums.get(name, ())
            if all(labels.get(k) == v for k, v in want.labels.items())
        ]
        if want.by:
            for one in dict.fromkeys(labels.get(want.by, "") for labels, _ in matching):
                yield of_tenant(ours, one), sum(value for labels, value in matching if labels.get(want.by, "") == one)
        elif matching:
            yield ours, sum(value for _, value in matching)
        if matching:
            return
