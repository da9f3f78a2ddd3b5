"""The paged KV pool: fixed blocks, each with one owner, given back through limbo.

After Kwon et al. 2023 (PagedAttention): a sequence's KV lives in blocks of `block_tokens` slots reached through a
table, so the only waste is inside the last block. Reuse is last in, first out: a block freed too early is overwritten
soon, and the tag plane sees it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from faults.points import Kind
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Limbo
from runtime.core.ports import Ticket
from runtime.memory.points import KV_TAKE, MEMORY_FREE
from runtime.memory.tags import TagPlane


@dataclass(frozen=True, slots=True)
class PoolCount:
    """Where every block of a pool is. `live + limbo + free == total`, or something is lost or given twice."""

    live: int
    limbo: int
    free: int
    total: int

    @property
    def conserved(self) -> bool:
        """Whether the terms add up."""
        return self.live + self.limbo + self.free == self.total


class PagedPool:
    """`blocks` blocks of `block_tokens` tokens. Owners are names in the ledger; the pool itself knows only ids."""

    def __init__(self, env: Env, blocks: int, block_tokens: int, name: str = "kv") -> None:
        self.name = name
        self.blocks = blocks
        self.block_tokens = block_tokens
        self.plane = TagPlane(blocks, block_tokens)
        self._env = env
        self._free = list(range(blocks - 1, -1, -1))

    def take(self, owner: str, n: int, *, group: str = "", phase: str = "") -> tuple[list[int], list[int]]:
        """`n` blocks for `owner` and their generations. Raises OutOfBlocks, and then nothing was taken."""
        faults = self._env.faults
        if faults.armed:
            faults.fire(KV_TAKE, request=owner, group=group, phase=phase, pool=self.name)
        if n > len(self._free):
            raise OutOfBlocks(f"{owner} asks {n} blocks of pool {self.name}, {len(self._free)} are free")
        blocks = self._free[len(self._free) - n :]
        del self._free[len(self._free) - n :]
        blocks.reverse()
        self._env.ledger.acquire(self.name, owner, blocks)
        return blocks, self.plane.hand_out(blocks)

    def release(
        self, owner: str, blocks: Sequence[int], after: Ticket | None, *, group: str = "", phase: str = ""
    ) -> None:
        """`owner` is done with `blocks`; they are free once `after` (the last launch that touches them) is.

        Raises KeyError when `owner` does not hold one of them.
        """
        if not blocks:
            return
        faults = self._env.faults
        if faults.armed:
            effect = faults.fire(MEMORY_FREE, request=owner, group=group, phase=phase, pool=self.name)
            if effect is not None and effect.kind is Kind.DROP:
                return
        self._env.ledger.release(self.name, owner, blocks)
        if after is None or after.done:
            self._free.extend(blocks)
            return
        self._env.ledger.defer(
            Limbo(owner, self.name, list(blocks), after, self._env.clock.now_ns(), back=self._free.extend)
        )

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_tokens)

    def count(self) -> PoolCount:
        """Where every block is, by three counts that are kept apart."""
        ledger = self._env.ledger
        return PoolCount(ledger.live(self.name), ledger.in_limbo(self.name), len(self._free), self.blocks)
