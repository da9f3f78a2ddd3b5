"""Figures of KV while an engine works: what its ladder adds, and that no figure is one that can only be 0."""

from collections import Counter

from faults import Do, FaultSpec, When
from runtime.core.messages import Cancel
from runtime.core.owner import Owner
from runtime.memory.kv.figures import kv_usage, prefix_usage, request_usages, tenant_usages
from runtime.memory.spans.usage import Usage, figures_of
from runtime.scheduling.preemption import Mode
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import HOST_BYTES, Bench

SHARED = list(range(100, 108))


class Watched:
    """A bench whose figures are taken after every turn; `seen` counts those that were not 0."""

    def __init__(self, blocks: int, host_blocks: int = 0, mode: Mode = Mode.RECOMPUTE) -> None:
        limits = Limits(token_budget=32, seqs_max=4, waiting_max=16, expected_output=0.0, preemption=mode)
        self.bench = Bench(blocks, limits, prefix_cache=True, host_blocks=host_blocks)
        self.seen: Counter[str] = Counter()

    def usage(self) -> Usage:
        bench, pool = self.bench, self.bench.pool
        holdings = bench.engine.holdings()
        tenants = tenant_usages(pool, holdings, HOST_BYTES)
        kv, prefix = kv_usage(pool, tenants, bench.engine.leaked("kv"), HOST_BYTES), prefix_usage(pool, HOST_BYTES)
        assert prefix is not None
        for of, figures in (
            ("kv", [figures_of(kv) | {f"rung.{name}": n for name, n in (kv.rungs or {}).items()}]),
            ("prefix", [figures_of(prefix)]),
            ("tenant", [figures_of(one) for one in tenants]),
            ("request", [figures_of(one) for one in request_usages(pool, holdings, HOST_BYTES)]),
        ):
            for one in figures:
                self.seen.update({f"{of}.{name}": bool(value) for name, value in one.items()})
        return kv

    def run(self, turns_max: int = 300) -> None:
        for _ in range(turns_max):
            self.bench.turn()
            self.usage()
            if not self.bench.engine.requests:
                return
        raise AssertionError(f"still open: {self.bench.engine.status}")


def test_each_figure_of_kv_prefix_cache_tenants_and_requests_is_seen_to_be_more_than_0():
    watched = Watched(blocks=8, host_blocks=32, mode=Mode.SWAP)
    bench = watched.bench
    for at in range(4):
        bench.submit([*SHARED, at], max_tokens=8, group="chat")
    watched.run()
    for at in range(3):
        bench.submit([at * 11 + one for one in range(10)], max_tokens=12, group="batch")
    bench.turn()
    bench.mailbox.post(Cancel(bench.submit([7] * 6, 9)))
    watched.run()
    gone = bench.submit(SHARED, max_tokens=2)
    bench.faults.arm([FaultSpec(id="f", n=0, do=Do("memory.free", "drop"), when=When(times=1))])
    watched.run()
    assert watched.usage().leaks == len(bench.env.ledger.held("kv", gone)) > 0
    bench.faults.clean()
    bench.submit([3] * 8, max_tokens=20)
    bench.submit([4] * 8, max_tokens=20)
    watched.run()
    never = {name for name, n in watched.seen.items() if not n}
    assert never == set(), "a figure that can only be 0 tells nobody anything"
    assert {"kv.rung.evict", "kv.rung.preempt", "kv.rung.reject", "kv.limbo_bytes", "request.host_bytes"} <= set(
        watched.seen
    )


def test_a_want_of_blocks_is_counted_under_the_rung_that_ended_it():
    watched = Watched(blocks=6)
    first = watched.bench.submit(range(8), max_tokens=12)
    second = watched.bench.submit(range(50, 58), max_tokens=12)
    watched.run()
    kv = watched.usage()
    assert kv.rungs is not None
    preempted = sum(watched.bench.sink.ended[name].preempted for name in (first, second))
    assert 1 <= kv.rungs["preempt"] <= preempted == watched.bench.env.counters.total["kv.preempt"]
    assert kv.failed == watched.bench.env.counters.total["kv.out_of_blocks"] > 0
    assert kv.rungs["reject"] == watched.bench.env.counters.total["kv.reject"] == 0


def test_who_is_rejected_is_counted_under_the_last_rung():
    watched = Watched(blocks=4)
    gone = Owner("gone")
    watched.bench.pool.take(gone, 3)
    name = watched.bench.submit(range(8), max_tokens=4)
    watched.run()
    kv = watched.usage()
    assert watched.bench.sink.ended[name].end.code == "out_of_blocks"
    assert kv.rungs is not None
    assert (kv.rungs["reject"], kv.leaks) == (1, 3)
    watched.bench.pool.release(gone, watched.bench.env.ledger.held("kv", "gone"), None)
    assert watched.usage().leaks == 0
