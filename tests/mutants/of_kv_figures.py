"""Mutants of what the KV pool, its tenants' accounts and its prefix cache count."""

from collections.abc import Sequence

from runtime.core.errors import OutOfBlocks
from runtime.core.owner import Owner
from runtime.memory.kv import figures
from runtime.memory.kv.counts import Account
from runtime.memory.kv.figures import Holding
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import BlockKey, PrefixIndex
from tests.mutants.mutant import Function, Mutant, Subject
from tests.runtime.memory.kv.test_kv_figures import FiguresMachine


def refusal_is_not_counted(sound: Function) -> Function:
    def take(self: PagedPool, owner: Owner, n: int) -> object:
        try:
            return sound(self, owner, n)
        except OutOfBlocks:
            self.accounts[owner.tenant].failed -= 1
            raise

    return take


def peak_stays(sound: Function) -> Function:
    def add_live(self: Account, blocks: int) -> None:
        self.live += blocks

    return add_live


def peak_without_limbo(sound: Function) -> Function:
    def see_peak(self: PagedPool) -> None:
        self.peak = max(self.peak, self._env.ledger.live(self.name))

    return see_peak


def share_adds_nothing(sound: Function) -> Function:
    def share(self: PagedPool, owner: Owner, blocks: Sequence[int]) -> object:
        account = self.accounts[owner.tenant]
        before = account.live
        generations = sound(self, owner, blocks)
        account.live = before
        return generations

    return share


def publication_is_not_counted(sound: Function) -> Function:
    def add(self: PrefixIndex, blocks: Sequence[int], keys: Sequence[BlockKey], generations: Sequence[int]) -> int:
        added: int = sound(self, blocks, keys, generations)
        self.published -= added
        return added

    return add


def each_holder_counts(sound: Function) -> Function:
    def asked_bytes(pool: PagedPool, holdings: Sequence[Holding], block_bytes: int) -> int:
        return sum(sound(pool, (one,), block_bytes) for one in holdings)

    return asked_bytes


SUBJECTS = (
    Subject(
        FiguresMachine,
        (
            Mutant("a refused call is not counted", PagedPool, "take", refusal_is_not_counted),
            Mutant("the peak of a tenant stays", Account, "add_live", peak_stays),
            Mutant("the peak of the pool leaves limbo out", PagedPool, "_update_peak", peak_without_limbo),
            Mutant(
                "a call that evicts counts as a hit",
                Account,
                "count_served",
                lambda f: lambda one, _, blocks: f(one, False, blocks),
            ),
            Mutant(
                "hits count double", PagedPool, "count_lookup", lambda f: lambda one, who, n, k: f(one, who, n, 2 * k)
            ),
            Mutant("a shared block is not live for its tenant", PagedPool, "share", share_adds_nothing),
            Mutant("a published block is not counted", PrefixIndex, "add", publication_is_not_counted),
            Mutant("a shared block is asked once for each holder", figures, "_asked_bytes", each_holder_counts),
        ),
    ),
)
