"""The K and V tensors of one model: one pair a layer, in pages, with one dummy block behind the real ones.

    keys[layer], values[layer]    [blocks + 1, block_tokens, kv_heads, head_dim]
    slot                          block * block_tokens + offset; block number `blocks` is the dummy

One tensor a layer because a single stacked one makes compiled steps copy all of it. The dummy block takes what padding
writes and fills up short block tables, so that padding never touches a request's KV.
"""

import torch
from torch import Tensor

from runtime.models.config import DecoderConfig


class PagedKv:
    """Pages of K and V. Who owns which block is not known here: that is the pool's and the ledger's business.

    Freed blocks may be poisoned with large numbers but never with NaN or infinity: slots behind a request's last token
    are read and multiplied by 0.
    """

    def __init__(
        self, config: DecoderConfig, blocks: int, block_tokens: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self.blocks = blocks
        self.block_tokens = block_tokens
        shape = (blocks + 1, block_tokens, config.kv_heads, config.head_dim)
        # Written to at once: `torch.zeros` maps pages at first use, and a soak would take that for a leak.
        self.keys = tuple(torch.empty(shape, dtype=dtype).zero_() for _ in range(config.layers))
        self.values = tuple(torch.empty(shape, dtype=dtype).zero_() for _ in range(config.layers))

    @property
    def dummy_block(self) -> int:
        """The block that belongs to nobody."""
        return self.blocks

    @property
    def size_bytes(self) -> int:
        """All of K and V."""
        return sum(tensor.numel() * tensor.element_size() for tensor in (*self.keys, *self.values))

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store one entry [kv_heads, head_dim] a token at its slot."""
        self.keys[layer].flatten(0, 1).index_copy_(0, slots, keys)
        self.values[layer].flatten(0, 1).index_copy_(0, slots, values)
