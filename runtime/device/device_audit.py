"""Audit rows of the device's own pools: weights stay allocated, a launch frees all its spans. No torch."""

from collections import Counter
from collections.abc import Iterable

from runtime.core.env import Env
from runtime.guard.audit import AuditRow
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, Span

_OF_A_LAUNCH = (PoolKind.ACTIVATION, PoolKind.WORKSPACE)

Held = Iterable[tuple[Span, AllocRequest]]


def device_rows(env: Env, held: Held, scope: str) -> list[AuditRow]:
    """Return the rows for `held`, all live spans of the device's pools. In scope "live" a launch may be in flight, so
    no value is expected."""
    now_ns = env.clock.now_ns()
    expected = None if scope == "live" else 0

    def row(name: str, kind: str, value: int, unit: str, owner: str = "", history: str = "") -> AuditRow:
        return AuditRow(now_ns, scope, name, kind, owner, value, expected if kind == "live" else None, unit, history)

    bytes_of, spans_of = Counter[str](), Counter[tuple[str, str]]()
    for span, request in held:
        bytes_of[request.pool] += span.bytes
        if request.lifetime is not Lifetime.GLOBAL:
            spans_of[request.pool, request.owner] += 1
    # Rows of kind "cached" are not judged: spans of a launch in flight, and spans that stay allocated.
    kind = "cached" if scope == "live" else "live"
    rows = [row(f"{pool}_bytes", "cached", bytes_of[pool], "bytes") for pool in (PoolKind.WEIGHT, *_OF_A_LAUNCH)]
    for pool in _OF_A_LAUNCH:
        total = sum(count for (of, _), count in spans_of.items() if of == pool)
        rows.append(row(f"{pool}_spans.live", kind, total, "spans"))  # the sum of the rows of owners
    rows += [
        row(f"{pool}_spans", kind, count, "spans", owner, "its launch is done, and its spans were not reset")
        for (pool, owner), count in spans_of.items()
    ]
    return rows
