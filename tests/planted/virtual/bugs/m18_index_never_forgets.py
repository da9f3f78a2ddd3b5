"""Blocks leave the prefix index and their hashes stay in it.

The real bug: nanovllm-voxcpm #62, a map from hash to block that only grows. What is found is compared before it is
used, so no answer is wrong: it is a leak of the index alone, and the audit counts hashes that no block holds.
"""

import pytest

from runtime.memory.kv.prefix import PrefixIndex

SCENARIO = "shared"
JUDGE = "reclamation"


def plant(patch: pytest.MonkeyPatch) -> None:
    add, forget = PrefixIndex.add, PrefixIndex.forget

    def _at(self, key):
        block = self._blocks.get(key.digest)
        entry = self._entries.get(block)
        return block if entry is not None and entry[0] == key else None

    def _add(self, block, key, generation):
        if self._at(key) is None:
            self._blocks.pop(key.digest, None)
        return add(self, block, key, generation)

    def _forget(self, blocks):
        hashes = dict(self._blocks)
        idle = forget(self, blocks)
        self._blocks = hashes
        return idle

    patch.setattr(PrefixIndex, "_at", _at)
    patch.setattr(PrefixIndex, "add", _add)
    patch.setattr(PrefixIndex, "forget", _forget)
