"""Blocks leave the prefix index and their hashes stay in it.

The real bug: nanovllm-voxcpm #62, a map from hash to block that only grows. What is found is compared before it is
used, so no answer is wrong: it is a leak of the index alone, and the audit counts hashes that no block holds.
"""

import itertools

import pytest

from runtime.memory.kv.prefix import PrefixIndex

SCENARIO = "pr-shared-prefix"
JUDGE = "reclamation"


def plant(patch: pytest.MonkeyPatch) -> None:
    add, evict, forget = PrefixIndex.add, PrefixIndex.evict, PrefixIndex.forget

    def _knows(self, key):
        return key in self._blocks and self._keys[self._blocks[key]] == key

    def _find(self, keys):
        return [self._blocks[key] for key in itertools.takewhile(self.knows, keys)]

    def _add(self, blocks, keys, generations):
        for key in keys:
            if not self.knows(key):
                self._blocks.pop(key, None)
        return add(self, blocks, keys, generations)

    def but_for_its_hashes(gone):
        def _gone(self, blocks):
            hashes = dict(self._blocks)
            idle = gone(self, blocks)
            self._blocks = hashes
            return idle

        return _gone

    patch.setattr(PrefixIndex, "knows", _knows)
    patch.setattr(PrefixIndex, "find", _find)
    patch.setattr(PrefixIndex, "add", _add)
    patch.setattr(PrefixIndex, "evict", but_for_its_hashes(evict))
    patch.setattr(PrefixIndex, "forget", but_for_its_hashes(forget))
