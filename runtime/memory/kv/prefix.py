"""The prefix index maps the content of finished KV blocks to block ids, so that a shared prefix is computed once.

    |<-- run of 8 blocks -->|<-- run --
    | a | b | c |  ...  | h | i | j |          key of c = digest(salt), a, b, c       key of j = digest(key of h), i, j
    salt = group, model, version of the weights: KV is never shared across salts

    held by requests --the last holder ends--> evictable, in LRU order --evicted--> free
          ^                                     |
          `------------- found again -----------'

A dict finds a key by its hash and then compares the whole key: the tokens of its own run one by one, and all tokens
before that run by a digest of 16 bytes. A digest for each block would cost more than the rest of its key. Each block
has at most one entry, so the index is never larger than its pool. After Kwon et al. 2023 (PagedAttention, 4.4) and
vLLM's automatic prefix caching. The scheduler enters a block only after its KV was computed (`Scheduler.publish`).
"""

from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice

_DIGEST_BYTES = 16
_RUN_BLOCKS = 8

BlockKey = bytes
"""Identifies the content of a full block, including all tokens before it."""


class BlockHashes:
    """The keys of one sequence's blocks. Keys depend on tokens only; they are computed on demand and then kept."""

    __slots__ = ("_block_tokens", "_keys", "_salt", "_wide_from")

    def __init__(self, block_tokens: int, salt: bytes) -> None:
        self._keys: list[BlockKey] = []
        self._block_tokens = block_tokens
        self._salt = salt
        self._wide_from: int | None = None
        """The first block with a token above 255. From there on a token takes four bytes, and a run begins."""

    def keys_for(self, tokens: Sequence[int], blocks: int) -> list[BlockKey]:
        """Return the keys of the first `blocks` blocks of `tokens`, all full. `tokens` only grows between calls."""
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
        """Append the keys of the blocks in `packed`, `size` bytes each. `person` keeps equal bytes of narrow and wide
        tokens apart."""
        keys = self._keys
        rest, begins = -len(keys) % _RUN_BLOCKS * size, len(keys) == self._wide_from
        if len(packed) == size and rest and not begins:  # nearly always so in decode
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
    """Return the start of a sequence's chain of digests. `version` names weights and quantisation."""
    return _digest(repr((group, model_key, version)).encode())


class PrefixIndex:
    """Two maps, key -> block and its inverse, and the evictable blocks in LRU order. It knows ids, not owners."""

    def __init__(self, blocks: int) -> None:
        self._blocks: dict[BlockKey, int] = {}
        self._keys: list[BlockKey | None] = [None] * blocks
        self._generations = [0] * blocks
        """Block -> the generation in which it was published."""
        self._evictable: OrderedDict[int, None] = OrderedDict()
        self.published = 0
        """Blocks that entered the index."""
        self.refused = 0
        """Blocks that did not enter, since another block has the same key."""
        self.evicted = 0
        self.peak = 0
        """The most blocks that were in the index at once."""

    def find(self, keys: Sequence[BlockKey]) -> list[int]:
        """Return the blocks that hold the longest known prefix of `keys`."""
        block_of, found = self._blocks.get, []
        for key in keys:
            block = block_of(key)
            if block is None:
                break
            found.append(block)
        return found

    def knows(self, key: BlockKey) -> bool:
        """True when some block has this key."""
        return key in self._blocks

    def add(self, blocks: Sequence[int], keys: Sequence[BlockKey], generations: Sequence[int]) -> int:
        """Enter each block under its key, unless another block has that key. Return how many entered."""
        key_of, generation_of, first_block, added = self._keys, self._generations, self._blocks.setdefault, 0
        for block, key, generation in zip(blocks, keys, generations, strict=True):
            assert key_of[block] is None, f"block {block} is in the index already"
            if first_block(key, block) == block:
                key_of[block] = key
                generation_of[block] = generation
                added += 1
        self.published += added
        self.refused += len(keys) - added
        if len(self._blocks) > self.peak:
            self.peak = len(self._blocks)
        return added

    def hold(self, block: int) -> int:
        """Mark `block` as held, so that it can't be evicted. Return the generation in which it was published."""
        assert self._keys[block] is not None, f"block {block} is not in the index"
        self._evictable.pop(block, None)
        return self._generations[block]

    def make_evictable(self, blocks: Iterable[int]) -> list[int]:
        """Mark `blocks` as held by no request, the last one as most recently used. Return those that are not in the
        index: they are free."""
        keys, evictable, free = self._keys, self._evictable, []
        for block in blocks:
            if keys[block] is not None:
                evictable[block] = None
            else:
                free.append(block)
        return free

    def evict(self, n: int) -> list[int]:
        """Remove the `n` least recently used evictable blocks from the index and return them."""
        keys, known, evictable = self._keys, self._blocks, self._evictable
        if n == 1:  # mostly so in decode, and twice as fast
            blocks = [evictable.popitem(last=False)[0]]
        else:
            blocks = list(islice(evictable, n))
            for block in blocks:
                del evictable[block]
        for block in blocks:
            del known[keys[block]]  # type: ignore[arg-type]  # evictable blocks have a key
            keys[block] = None
        self.evicted += n
        return blocks

    def forget(self, blocks: Iterable[int]) -> list[int]:
        """Remove `blocks` from the index. Return those that were evictable: they are free now."""
        evictable: list[int] = []
        for block in blocks:
            key = self._keys[block]
            if key is not None:
                del self._blocks[key]
                self._keys[block] = None
                if block in self._evictable:
                    del self._evictable[block]
                    evictable.append(block)
        return evictable

    def none_published(self, blocks: Sequence[int]) -> bool:
        """True when none of `blocks` is in the index. Only then may they be written."""
        return not any(map(self._keys.__getitem__, blocks))

    def count_evictable(self, blocks: Iterable[int]) -> int:
        """Return how many of `blocks` are held by no request."""
        return sum(block in self._evictable for block in blocks)

    @property
    def evictable(self) -> int:
        """Blocks that could be evicted now."""
        return len(self._evictable)

    @property
    def cached(self) -> Collection[int]:
        """The blocks without a holder that are kept for later requests."""
        return self._evictable.keys()

    @property
    def stale(self) -> int:
        """Keys without a block. Always 0, or the index would grow without bound."""
        return len(self._blocks) - len(self)

    def __len__(self) -> int:
        return len(self._keys) - self._keys.count(None)
