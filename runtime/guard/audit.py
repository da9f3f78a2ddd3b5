"""The reclamation audit: after a quiesce all blocks are free or cached, no launch is in flight, and nothing is held.

Besides the totals there is one row per owner, with the owner's last events: they show where a leak comes from.
"""

from collections.abc import Collection
from dataclasses import dataclass

from runtime.core.env import Env
from runtime.memory.kv.paged import PagedPool


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of table audit in `history.md`. A row whose `expected` is None is for information and not judged."""

    t_ns: int
    scope: str
    name: str
    kind: str
    owner: str
    value: int
    expected: int | None
    unit: str
    history: str


def audit(env: Env, pool: PagedPool, open_requests: Collection[str], in_flight: int, scope: str) -> list[AuditRow]:
    """Return rows of all holdings, totals first. Scope "live" permits holdings of open requests; "quiesce" and "drain"
    permit none. `in_flight` is the number of launches and copies in flight. Lost blocks have their last owner."""
    now_ns = env.clock.now_ns()
    settled = scope != "live"
    ledger, count = env.ledger, pool.count()
    blocks = f"{pool.name}_blocks"

    def row(name: str, kind: str, value: int, expected: int | None, unit: str, owner: str = "") -> AuditRow:
        return AuditRow(now_ns, scope, name, kind, owner, value, expected, unit, ledger.history(owner) if owner else "")

    # A shared block counts once for each of its owners, as in the rows of owners, whose sum this is.
    holdings = sum(items for held, _, items in ledger.outstanding() if held == pool.name)
    rows = [
        row("requests.open", "live", len(open_requests), 0 if settled else None, "requests"),
        row("tickets.in_flight", "limbo", in_flight, 0 if settled else None, "tickets"),
        row(f"{blocks}.live", "live", holdings, 0 if settled else None, "blocks"),
        row(f"{blocks}.cached", "cached", count.cached, None, "blocks"),
        row(f"{blocks}.limbo", "limbo", count.limbo, 0 if settled else None, "blocks"),
        row(f"{blocks}.free", "reclaimable", count.reclaimable, count.total if settled else None, "blocks"),
        row(f"{blocks}.sum", "live", count.sum, count.total, "blocks"),
        row("prefix_index.stale", "live", pool.index.stale, 0, "digests"),
    ]
    for owner, lost in pool.lost().items():
        rows.append(row(f"{blocks}.lost", "live", len(lost), 0, "blocks", owner))
    for held, owner, items in ledger.outstanding():
        unit = _unit(held, pool)
        expected = items if owner in open_requests and not settled else 0
        rows.append(row(f"{held}_{unit}", "live", items, expected, unit, owner))
    for entry in ledger.limbo():
        unit = _unit(entry.pool, pool)
        rows.append(row(f"{entry.pool}_{unit}", "limbo", len(entry.items), 0 if settled else None, unit, entry.owner))
    return rows


def _unit(held: str, pool: PagedPool) -> str:
    """Return the unit of the ledger's items in the pool `held`."""
    return "blocks" if held == pool.name else "spans"
