"""Audit rows of the device's own pools: weights stay, a launch gives back all that it took. No torch."""

from collections import Counter
from collections.abc import Iterable

from runtime.core.env import Env
from runtime.guard.audit import AuditRow
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, Span

_OF_A_LAUNCH = (PoolKind.ACTIVATION, PoolKind.WORKSPACE)

Held = Iterable[tuple[Span, AllocRequest]]


def device_rows(env: Env, held: Held, scope: str) -> list[AuditRow]:
    """`held` are all live spans of those pools. In scope "live" a launch may be under way, so nothing is expected."""
    now_ns = env.clock.now_ns()
    expected = None if scope == "live" else 0

    def row(name: str, kind: str, value: int, unit: str, owner: str = "", history: str = "") -> AuditRow:
        return AuditRow(now_ns, scope, name, kind, owner, value, expected if kind == "live" else None, unit, history)

    bytes_of, spans_of = Counter[str](), Counter[tuple[str, str]]()
    for span, request in held:
        bytes_of[request.pool] += span.bytes
        if request.lifetime is not Lifetime.GLOBAL:
            spans_of[request.pool, request.owner] += 1
    # Never judged: what a launch under way holds, and what stays for good.
    kind = "cached" if scope == "live" else "live"
    rows = [row(f"{pool}_bytes", "cached", bytes_of[pool], "bytes") for pool in (PoolKind.WEIGHT, *_OF_A_LAUNCH)]
    for pool in _OF_A_LAUNCH:
        total = sum(count for (of, _), count in spans_of.items() if of == pool)
        rows.append(row(f"{pool}_spans.live", kind, total, "spans"))  # named as a sum of the rows of owners is
    rows += [
        row(f"{pool}_spans", kind, count, "spans", owner, "its launch is over and its reset never came")
        for (pool, owner), count in spans_of.items()
    ]
    return rows
