"""KV that comes back from the host is written into a temporary, and the request goes on over what lay in its blocks.

The real bug: `cache[blocks].copy_(host)` in the offloading manager of transformers' continuous batching (by reading):
an index of arrays makes a copy, and the copy is what is written. The torch form is in on_torch.py.
"""

import pytest

from runtime.core.work import Copy, Way
from runtime.device.host_bytes import SimMover

SCENARIO = "pr-swap"
JUDGE = "invariants"


def plant(patch: pytest.MonkeyPatch) -> None:
    move = SimMover.move

    def _move(self: SimMover, copy: Copy) -> None:
        if copy.way is Way.OUT:
            move(self, copy)

    patch.setattr(SimMover, "move", _move)
