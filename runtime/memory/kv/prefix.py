"""The prefix index: finished KV blocks by what they hold, so that a prompt that begins alike is not computed again.

    digest(block) = blake2b(digest of the block before it, its own tokens);  the first one follows a salt
    salt          = group, model, version of the weights: KV of one is never found by another

    held by requests --the last one leaves--> idle, last in line --evicted--> free
          ^                                     |
          `------------- found again -----------'

A digest only finds; what is found is compared, tokens and all, before anybody reads it. One entry a block and one block
an entry, so the index is never larger than its pool. After Kwon et al. 2023 (PagedAttention, 4.4) and vLLM's automatic
prefix caching; that blocks enter only after their KV was computed is the engine's part (`Scheduler.publish`).
"""

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

_DIGEST_BYTES = 16


class BlockKey(NamedTuple):
    """What a full block holds, in the context of all tokens before it."""

    digest: bytes
    content: bytes
    """The digest of the block before, and this block's tokens: what is compared when the digest is found."""


class KeyLine:
    """The keys of one sequence's blocks, made as far as somebody asks and then kept: they depend on tokens alone."""

    __slots__ = ("_block_tokens", "_digest_bytes", "_keys", "_salt")

    def __init__(self, block_tokens: int, salt: bytes, digest_bytes: int = _DIGEST_BYTES) -> None:
        self._keys: list[BlockKey] = []
        self._block_tokens = block_tokens
        self._salt = salt
        self._digest_bytes = digest_bytes

    def reach(self, tokens: Sequence[int], blocks: int) -> list[BlockKey]:
        """Keys of the first `blocks` blocks of `tokens`, all of them full. Always of the same sequence as it grows."""
        keys, size = self._keys, self._block_tokens
        made = len(keys)
        if made < blocks:
            digest, wide, new = keys[-1].digest if keys else self._salt, self._digest_bytes, tuple.__new__
            for packed in _packed(tokens[made * size : blocks * size], size):
                content = digest + packed
                digest = blake2b(content, digest_size=wide).digest()
                keys.append(new(BlockKey, (digest, content)))  # BlockKey(...) takes three times as long
        return keys if len(keys) == blocks else keys[:blocks]


def _packed(tokens: Sequence[int], size: int) -> list[bytes]:
    """Each `size` tokens as bytes: one a token where all of a block are that small, else four. Two blocks are alike
    only if their bytes are."""
    try:
        whole = bytes(tokens)
        return [whole[at : at + size] for at in range(0, len(whole), size)]
    except ValueError:
        return [_packed_one(tokens[at : at + size]) for at in range(0, len(tokens), size)]


def _packed_one(tokens: Sequence[int]) -> bytes:
    try:
        return bytes(tokens)
    except ValueError:
        return array("I", tokens).tobytes()


def salt_of(group: str, model_key: str, version: str) -> bytes:
    """Where a sequence's chain of digests begins. `version` names weights and quantisation."""
    return blake2b(repr((group, model_key, version)).encode(), digest_size=_DIGEST_BYTES).digest()


class PrefixIndex:
    """Two maps that are each other's inverse, and the line of those that nobody holds. Knows ids, never owners."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, int] = {}
        self._entries: dict[int, tuple[BlockKey, int]] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    def find(self, keys: Sequence[BlockKey]) -> list[int]:
        """The blocks that hold the longest beginning of `keys`."""
        found: list[int] = []
        for key in keys:
            block = self._at(key)
            if block is None:
                break
            found.append(block)
        return found

    def knows(self, key: BlockKey) -> bool:
        """Whether some block holds this."""
        return self._at(key) is not None

    def may_know(self, keys: Sequence[BlockKey]) -> bool:
        """Whether some block may hold one of these; their contents are not compared."""
        return not self._blocks.keys().isdisjoint([digest for digest, _ in keys])

    def add(self, block: int, key: BlockKey, generation: int) -> bool:
        """`block` holds `key` from now on. False, and nothing changes, when another one already does."""
        assert block not in self._entries, f"block {block} is in the index already"
        if key.digest in self._blocks:
            return False
        self._blocks[key.digest] = block
        self._entries[block] = key, generation
        return True

    def hold(self, block: int) -> int:
        """Somebody holds `block` from now on: it can't be evicted. Returns the generation it was published with."""
        self._idle.pop(block, None)
        return self._entries[block][1]

    def rest(self, block: int) -> bool:
        """Nobody holds `block` any more: last in line for eviction. False when it is not in the index: it is free."""
        if block not in self._entries:
            return False
        self._idle[block] = None
        return True

    def rest_all(self, blocks: Iterable[int]) -> list[int]:
        """`rest` for each of these, in this order. Returns those that are not in the index."""
        entries, idle, free = self._entries, self._idle, []
        for block in blocks:
            if block in entries:
                idle[block] = None
            else:
                free.append(block)
        return free

    def evict(self, n: int) -> list[int]:
        """The `n` idle blocks that were used longest ago; nothing can find them any more."""
        popitem = self._idle.popitem
        blocks = [popitem(last=False)[0] for _ in range(n)]
        self.forget(blocks)
        return blocks

    def forget(self, blocks: Iterable[int]) -> list[int]:
        """Out of the index with them, where they are in it. Returns those that were idle: their room is free now."""
        entries, known, resting = self._entries, self._blocks, self._idle
        idle: list[int] = []
        for block in blocks:
            entry = entries.pop(block, None)
            if entry is not None:
                del known[entry[0].digest]
                if block in resting:
                    del resting[block]
                    idle.append(block)
        return idle

    def spares(self, blocks: Iterable[int]) -> bool:
        """Whether none of `blocks` is in the index: only then may they be written."""
        return self._entries.keys().isdisjoint(blocks)

    def idle_among(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` nobody holds."""
        return sum(block in self._idle for block in blocks)

    @property
    def idle(self) -> int:
        """Blocks that could be evicted now."""
        return len(self._idle)

    @property
    def stale(self) -> int:
        """Digests that no block holds. Always 0, or the index would grow for as long as the server runs."""
        return len(self._blocks) - len(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def check(self) -> None:
        """Raises AssertionError when the maps are not each other's inverse, or an idle block can't be found."""
        assert {block: key.digest for block, (key, _) in self._entries.items()} == {
            block: digest for digest, block in self._blocks.items()
        }, "the two maps of the prefix index differ"
        assert self._idle.keys() <= self._entries.keys(), "an idle block is not in the index"

    def _at(self, key: BlockKey) -> int | None:
        block = self._blocks.get(key.digest)
        return block if block is not None and self._entries[block][0].content == key.content else None
