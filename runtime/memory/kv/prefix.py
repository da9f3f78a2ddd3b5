"""The prefix index: finished KV blocks by what they hold, so that a prompt that begins alike is not computed again.

    |<-- run of 8 blocks -->|<-- run --
    | a | b | c |  ...  | h | i | j |          key of c = digest(salt), a, b, c       key of j = digest(key of h), i, j
    salt = group, model, version of the weights: KV of one is never found by another

    held by requests --the last one leaves--> idle, last in line --evicted--> free
          ^                                     |
          `------------- found again -----------'

A key is found by its hash and then compared as a whole, before anybody reads the block: a map does both. So the tokens
of its own run are compared one by one, and what came before by a digest of 16 bytes; a digest for each block would cost
more than all the rest of its key. One entry a block and one block an entry, so the index is never larger than its pool.
After Kwon et al. 2023 (PagedAttention, 4.4) and vLLM's automatic prefix caching; that blocks enter only after their KV
was computed is the engine's part (`Scheduler.publish`).
"""

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice

_DIGEST_BYTES = 16
_RUN_BLOCKS = 8

BlockKey = bytes
"""What a full block holds, in the context of all tokens before it."""


class BlockHashes:
    """The keys of one sequence's blocks, made as far as somebody asks and then kept: they depend on tokens alone."""

    __slots__ = ("_block_tokens", "_keys", "_salt", "_wide_from")

    def __init__(self, block_tokens: int, salt: bytes) -> None:
        self._keys: list[BlockKey] = []
        self._block_tokens = block_tokens
        self._salt = salt
        self._wide_from: int | None = None
        """The first block with a token above 255. From there on a token takes four bytes, and a run begins."""

    def reach(self, tokens: Sequence[int], blocks: int) -> list[BlockKey]:
        """Keys of the first `blocks` blocks of `tokens`, all of them full. Always of the same sequence as it grows."""
        keys, size = self._keys, self._block_tokens
        if len(keys) < blocks:
            fresh = tokens[len(keys) * size : blocks * size]
            if self._wide_from is None:
                try:
                    self._add(bytes(fresh), size)
                except ValueError:
                    small = next(at for at, token in enumerate(fresh) if token > 255) // size * size
                    self._add(bytes(fresh[:small]), size)
                    self._wide_from, fresh = len(keys), fresh[small:]
            if self._wide_from is not None:
                self._add(array("I", fresh).tobytes(), size * array("I").itemsize, b"wide")
        return keys if len(keys) == blocks else keys[:blocks]

    def _add(self, packed: bytes, size: int, person: bytes = b"") -> None:
        """Keys of the blocks in `packed`, `size` bytes each. By `person` the same bytes of narrow and wide tokens are
        never one key."""
        keys = self._keys
        rest, begins = -len(keys) % _RUN_BLOCKS * size, len(keys) == self._wide_from
        if len(packed) == size and rest and not begins:  # as it nearly always is in decode
            keys.append(keys[-1] + packed)
            return
        before = keys[-1] if keys else self._salt
        if rest and begins:
            before = _digest(before, person)
        for end in range(size, min(rest, len(packed)) + 1, size):
            keys.append(before + packed[:end])
        for at in range(rest, len(packed), _RUN_BLOCKS * size):
            run = _digest(keys[-1] if keys else self._salt, person) + packed[at : at + _RUN_BLOCKS * size]
            for end in range(_DIGEST_BYTES + size, len(run) + 1, size):
                keys.append(run[:end])


def _digest(before: bytes, person: bytes = b"") -> bytes:
    return blake2b(before, digest_size=_DIGEST_BYTES, person=person).digest()


@lru_cache(maxsize=256)
def salt_of(group: str, model_key: str, version: str) -> bytes:
    """Where a sequence's chain of digests begins. `version` names weights and quantisation."""
    return _digest(repr((group, model_key, version)).encode())


class PrefixIndex:
    """Two maps that are each other's inverse, and the line of those that nobody holds. Knows ids, never owners."""

    def __init__(self, blocks: int) -> None:
        self._blocks: dict[BlockKey, int] = {}
        self._keys: list[BlockKey | None] = [None] * blocks
        self._generations = [0] * blocks
        """In which each was published."""
        self._idle: OrderedDict[int, None] = OrderedDict()
        self.published = 0
        """Blocks that entered, that were refused since another one held the same, and that were evicted."""
        self.refused = 0
        self.evicted = 0
        self.peak = 0
        """The most blocks that were in it at once."""

    def find(self, keys: Sequence[BlockKey]) -> list[int]:
        """The blocks that hold the longest beginning of `keys`."""
        at, found = self._blocks.get, []
        for key in keys:
            block = at(key)
            if block is None:
                break
            found.append(block)
        return found

    def knows(self, key: BlockKey) -> bool:
        """Whether some block holds this."""
        return key in self._blocks

    def add(self, block: int, key: BlockKey, generation: int) -> bool:
        """`block` holds `key` from now on. False, and nothing changes, when another one already does."""
        return self.add_all((block,), (key,), (generation,)) == 1

    def add_all(self, blocks: Sequence[int], keys: Sequence[BlockKey], generations: Sequence[int]) -> int:
        """`add` for each of these. Returns how many hold their key from now on."""
        names, given, holder, added = self._keys, self._generations, self._blocks.setdefault, 0
        for block, key, generation in zip(blocks, keys, generations, strict=True):
            assert names[block] is None, f"block {block} is in the index already"
            if holder(key, block) == block:
                names[block] = key
                given[block] = generation
                added += 1
        self.published += added
        self.refused += len(keys) - added
        if len(self._blocks) > self.peak:
            self.peak = len(self._blocks)
        return added

    def hold(self, block: int) -> int:
        """Somebody holds `block` from now on: it can't be evicted. Returns the generation it was published with."""
        assert self._keys[block] is not None, f"block {block} is not in the index"
        self._idle.pop(block, None)
        return self._generations[block]

    def rest(self, block: int) -> bool:
        """Nobody holds `block` any more: last in line for eviction. False when it is not in the index: it is free."""
        return not self.rest_all((block,))

    def rest_all(self, blocks: Iterable[int]) -> list[int]:
        """`rest` for each of these, in this order. Returns those that are not in the index."""
        keys, idle, free = self._keys, self._idle, []
        for block in blocks:
            if keys[block] is not None:
                idle[block] = None
            else:
                free.append(block)
        return free

    def evict(self, n: int) -> list[int]:
        """The `n` idle blocks that were used longest ago; nothing can find them any more."""
        keys, known, idle = self._keys, self._blocks, self._idle
        if n == 1:  # as it mostly is in decode, and then twice as quick
            blocks = [idle.popitem(last=False)[0]]
        else:
            blocks = list(islice(idle, n))
            for block in blocks:
                del idle[block]
        for block in blocks:
            del known[keys[block]]  # type: ignore[arg-type]  # who is idle has a key
            keys[block] = None
        self.evicted += n
        return blocks

    def forget(self, blocks: Iterable[int]) -> list[int]:
        """Out of the index with them, where they are in it. Returns those that were idle: their room is free now."""
        idle: list[int] = []
        for block in blocks:
            key = self._keys[block]
            if key is not None:
                del self._blocks[key]
                self._keys[block] = None
                if block in self._idle:
                    del self._idle[block]
                    idle.append(block)
        return idle

    def spares(self, blocks: Sequence[int]) -> bool:
        """Whether none of `blocks` is in the index: only then may they be written."""
        return not any(map(self._keys.__getitem__, blocks))

    def idle_among(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` nobody holds."""
        return sum(block in self._idle for block in blocks)

    @property
    def idle(self) -> int:
        """Blocks that could be evicted now."""
        return len(self._idle)

    @property
    def stale(self) -> int:
        """Keys that no block holds. Always 0, or the index would grow for as long as the server runs."""
        return len(self._blocks) - len(self)

    def __len__(self) -> int:
        return len(self._keys) - self._keys.count(None)

    def check(self) -> None:
        """Raises AssertionError when the maps are not each other's inverse, or an idle block can't be found."""
        assert {key: block for block, key in enumerate(self._keys) if key is not None} == self._blocks, (
            "the two maps of the prefix index differ"
        )
        assert all(self._keys[block] is not None for block in self._idle), "an idle block is not in the index"
