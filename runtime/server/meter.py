"""`/metrics`: figures with vLLM's names where the meaning is equal, so that existing dashboards and alerts work."""

from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from faults.fault_instance import CAN_FIRE
from runtime.memory.spans.usage import MemoryFigures, PrefixUsage, Usage, figures_of
from runtime.server.admission import Admission
from runtime.server.connection import Connection, HttpSession
from runtime.server.ports import RuntimeHandle

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TTFT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
ITL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10, 20)
E2E_S = (0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)
Family = GaugeMetricFamily | CounterMetricFamily
GAUGE, COUNTER = GaugeMetricFamily, CounterMetricFamily


class Meter(Collector):
    """Counts tokens and ended requests on the event loop, and reads all other figures from the engine at each scrape.

    It has a registry of its own.
    """

    def __init__(self, runtime: RuntimeHandle, admission: Admission[Connection]) -> None:
        self._runtime = runtime
        self._admission = admission
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._ttft = self._histogram("vllm:time_to_first_token_seconds", "Time to first token", TTFT_S, runtime.model)
        self._itl = self._histogram("vllm:inter_token_latency_seconds", "Time between tokens", ITL_S, runtime.model)
        self._e2e = self._histogram("vllm:e2e_request_latency_seconds", "Time to the end", E2E_S, runtime.model)
        self._done = Counter(
            "vllm:request_success",
            "Requests that ended, by reason",
            ("model_name", "finished_reason"),
            registry=self._registry,
        )

    def tokens(self, session: HttpSession, n: int, now_ns: int) -> None:
        """Counts `n` new tokens of one request."""
        peer = session.peer
        if peer.first_ns is None:
            peer.first_ns = now_ns
            self._ttft.observe((now_ns - session.caller.arrive_ns) / 1e9)
        elif peer.last_ns is not None:
            self._itl.observe((now_ns - peer.last_ns) / 1e9 / n)
        peer.last_ns = now_ns

    def request_ended(self, session: HttpSession, outcome: str, finish: str | None, now_ns: int) -> None:
        """Counts a request that has ended."""
        if outcome == "ok":
            self._e2e.observe((now_ns - session.caller.arrive_ns) / 1e9)
            self._done.labels(self._runtime.model, finish or "stop").inc()
        elif outcome == "cancelled":
            self._done.labels(self._runtime.model, "abort").inc()

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Gives no metrics, since registering must not read an engine that has not started."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metric families, with present values."""
        runtime, status = self._runtime, self._runtime.status
        kv = status.kv
        used = (kv.live + kv.limbo) / kv.total if kv.total else 0.0
        for kind, name, text, value in (
            (GAUGE, "num_requests_running", "Requests in the batch", status.running),
            (GAUGE, "num_requests_waiting", "Requests in the queue", status.waiting),
            (GAUGE, "num_requests_swapped", "Waiting requests whose KV is on the host", status.swapped),
            (GAUGE, "kv_cache_usage_perc", "Share of KV blocks in use; cached ones are not", used),
            (COUNTER, "prompt_tokens", "Prompt tokens, computed or cached", status.prompt_tokens),
            (COUNTER, "generation_tokens", "Tokens generated", status.generation_tokens),
            (COUNTER, "num_preemptions", "Requests whose KV was taken away", status.preemptions),
        ):
            yield _family(kind, f"vllm:{name}", text, [(runtime.model, value)], "model_name")
        blocks = [("live", kv.live), ("cached", kv.cached), ("limbo", kv.limbo), ("free", kv.free)]
        yield _family(GAUGE, "seatrial_kv_blocks", "KV blocks by state; the sum is the pool", blocks, "state")
        yield _family(GAUGE, "seatrial_open_requests", "Requests without a row yet", [(len(self._admission.open),)])
        ended = sorted(self._admission.outcomes.items())
        yield _family(COUNTER, "seatrial_requests", "Requests that are over, by outcome", ended, "outcome")
        counters = runtime.env.counters
        yield _family(COUNTER, "seatrial_steps", "Steps of the engine", [(status.steps,)])
        yield _family(
            COUNTER, "seatrial_fallbacks", "Other paths than the first that steps took", [(counters.fallbacks,)]
        )
        counts = sorted(dict(counters.total).items())
        yield _family(COUNTER, "seatrial_marks", "Rare paths taken, by name", counts, "name")
        yield from _memory(runtime.memory)
        active: Counts[str] = Counts()
        fired: Counts[str] = Counts()
        for state in runtime.env.faults.states():
            active[state.id] += state.state in CAN_FIRE
            fired[state.id] += state.fired
        yield _family(GAUGE, "seatrial_fault_active", "Occurrences that may fire now", active.items(), "fault")
        yield _family(COUNTER, "seatrial_fault_fired", "Crossings that were broken", fired.items(), "fault")

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], model: str) -> Histogram:
        return Histogram(name, text, ("model_name",), buckets=buckets, registry=self._registry).labels(model)


def _family(kind: type[Family], name: str, text: str, rows: Iterable[tuple[Any, ...]], *labels: str) -> Metric:
    """One metric family. Each row has the values of the labels, then the value of the metric."""
    family = kind(name, text, labels=labels)
    for *values, value in rows:
        family.add_metric(values, value)
    return family


def _memory(memory: MemoryFigures) -> Iterator[Metric]:
    """Figures of pools, prefix cache and tenants, and bytes outside of the pools. Requests are too many for labels;
    their figures are in /admin/memory."""
    yield from _pools(memory.pools)
    if memory.prefix is not None:
        yield from _prefix(memory.prefix)
    tenants = [(one.tenant, figures_of(one)) for one in memory.tenants]
    yield from _figures("seatrial_kv_tenant_", "tenant", tenants, TENANT_GAUGES, TENANT_COUNTERS)
    text = "Most bytes that a launch allocated outside of every pool"
    yield _family(GAUGE, "seatrial_unowned_bytes", text, memory.unowned_bytes.items(), "phase")
    text = "Most copies and transposed views in a launch"
    yield _family(GAUGE, "seatrial_layout_conversions", text, memory.conversions.items(), "phase")
    if memory.free_bytes is not None:
        text = "Bytes that the device reports as free"
        yield _family(GAUGE, "seatrial_device_free_bytes", text, [(memory.free_bytes,)])


POOL_GAUGES = {
    "asked_bytes": "Bytes of live spans as asked, or of KV slots that hold a token",
    "largest_free_bytes": "Bytes of the largest free piece",
    "peak_bytes": "Most bytes that were held and in limbo at once",
    "fragmentation": "External: 1 - largest free piece / free bytes",
    "internal_fragmentation": "Share of the held bytes that were not asked for",
    "hit_rate": "Share of allocations that needed no refill, no segment and no eviction",
    "failure_rate": "Share of allocations that were refused",
    "failed_per_hour": "Refused allocations per hour of the pool's life",
    "leaks": "Spans or blocks whose owner has ended",
    "latency_ns_p99": "Wall time of an allocation, ns, over the last 4096",
}
POOL_COUNTERS = {
    "allocs": "Allocations that were served",
    "failed": "Allocations that were refused",
    "fragmentation_failures": "Allocations that were refused though enough was free, in pieces",
}
TENANT_GAUGES = {
    "requests": "Requests that hold KV",
    "asked_bytes": "Bytes of KV slots that hold a token",
    "held_bytes": "Bytes of KV blocks held",
    "host_bytes": "Bytes of KV on the host",
    "peak_bytes": "Most bytes of KV that were held at once",
    "internal_fragmentation": "Share of the held bytes that hold no token",
    "failure_rate": "Share of block allocations that were refused",
    "prefix_hit_rate": "Share of looked-for tokens that were cached",
}
TENANT_COUNTERS = {
    "allocs": "Block allocations that were served",
    "failed": "Block allocations that were refused",
    "prefix_queries": "Tokens looked for in the prefix cache",
    "prefix_hits": "Tokens found in the prefix cache",
}


def _pools(pools: Sequence[Usage]) -> Iterator[Metric]:
    states = [
        (usage.pool, state, size)
        for usage in pools
        for state in ("held", "limbo", "free", "pinned")
        if (size := getattr(usage, f"{state}_bytes")) is not None
    ]
    yield _family(GAUGE, "seatrial_pool_bytes", "Bytes of a pool by state", states, "pool", "state")
    missed = [(usage.pool, usage.allocs - usage.hits) for usage in pools]
    text = "Allocations that needed a refill, a segment or an eviction"
    yield _family(COUNTER, "seatrial_pool_missed", text, missed, "pool")
    rungs = [(usage.pool, rung, n) for usage in pools for rung, n in (usage.rungs or {}).items()]
    text = "Allocations by the rung that served them; reject: no rung did"
    yield _family(COUNTER, "seatrial_pool_rung", text, rungs, "pool", "rung")
    rows = [(usage.pool, figures_of(usage)) for usage in pools]
    yield from _figures("seatrial_pool_", "pool", rows, POOL_GAUGES, POOL_COUNTERS)


def _prefix(prefix: PrefixUsage) -> Iterator[Metric]:
    for kind, name, text, value in (
        (COUNTER, "vllm:prefix_cache_queries", "Tokens looked for in the prefix cache", prefix.queries),
        (COUNTER, "vllm:prefix_cache_hits", "Tokens found in the prefix cache", prefix.hits),
        (GAUGE, "seatrial_prefix_hit_rate", "Share of looked-for tokens that were found", prefix.hit_rate),
        (GAUGE, "seatrial_prefix_published_bytes", "Bytes of blocks in the index", prefix.published_bytes),
        (
            GAUGE,
            "seatrial_prefix_cached_bytes",
            "Bytes of blocks in the index that no request holds",
            prefix.cached_bytes,
        ),
        (GAUGE, "seatrial_prefix_peak_bytes", "Most bytes that were in the index at once", prefix.peak_bytes),
        (COUNTER, "seatrial_prefix_published", "Blocks that entered the index", prefix.published),
        (
            COUNTER,
            "seatrial_prefix_refused",
            "Blocks that did not enter the index, since another block had equal content",
            prefix.refused,
        ),
        (COUNTER, "seatrial_prefix_evicted", "Blocks that left the index to make room", prefix.evicted),
    ):
        yield _family(kind, name, text, [(value,)])


def _figures(
    prefix: str,
    label: str,
    rows: Sequence[tuple[str, Mapping[str, Any]]],
    gauges: Mapping[str, str],
    counters: Mapping[str, str],
) -> Iterator[Metric]:
    """One metric family for each name, with a sample for each row that has the figure."""
    for names, kind in ((gauges, GAUGE), (counters, COUNTER)):
        for name, text in names.items():
            present = [(value, figures[name]) for value, figures in rows if name in figures]
            yield _family(kind, prefix + name, text, present, label)
