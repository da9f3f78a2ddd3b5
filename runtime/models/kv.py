"""The K and V tensors of one model: one pair for each layer, in pages, with one dummy block behind the real ones.

    keys[layer], values[layer]    [blocks + 1, kv_heads, block_tokens, head_dim]
    slot                          block * block_tokens + offset; block number `blocks` is the dummy
    page                          block * kv_heads + head: the entries of one head in one block, contiguous

Heads come before tokens, so that gathering a row's pages gives each head its whole past in one piece. Attention over it
is two plain batched products, 1.1 to 3 times as fast as over token-major pages. Each layer has tensors of its own,
because compiled steps would copy all of a single stacked tensor. Padding writes to the dummy block and short block
tables are filled up with it, so padding never touches a request's KV.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from runtime.device.torch_segments import Make, fresh
from runtime.memory.spans.placement import aligned
from runtime.memory.spans.span import ALIGNMENT_MAX
from runtime.models.config import DecoderConfig

Ints = npt.NDArray[np.int64]


class PagedKv:
    """Pages of K and V. The owner of each block is not known here: the pool and the ledger keep it.

    Freed blocks may be poisoned with large numbers but never with NaN or infinity: slots behind a request's last token
    are read and multiplied by 0.
    """

    def __init__(
        self,
        config: DecoderConfig,
        blocks: int,
        block_tokens: int,
        dtype: torch.dtype = torch.float32,
        make: Make = fresh,
    ) -> None:
        self.blocks = blocks
        self.block_tokens = block_tokens
        self.heads = config.kv_heads
        self.head_dim = config.head_dim
        self._heads = np.arange(config.kv_heads)
        shape = (blocks + 1, config.kv_heads, block_tokens, config.head_dim)
        self.keys = tuple(make(shape, dtype) for _ in range(config.layers))
        self.values = tuple(make(shape, dtype) for _ in range(config.layers))
        # Views of these bytes by page and by place, made once: a view costs as much as a small kernel.
        self.key_pages, self.value_pages = ([each.flatten(0, 1) for each in half] for half in (self.keys, self.values))
        self.transposed_keys = [pages.transpose(1, 2) for pages in self.key_pages]
        self._places = [
            tuple(each.view(-1, config.head_dim) for each in pair) for pair in zip(self.keys, self.values, strict=True)
        ]

    @property
    def dummy_block(self) -> int:
        """Number of the block that no request holds."""
        return self.blocks

    def pages(self, tables: Ints) -> Tensor:
        """Page numbers of block tables [rows, blocks]: [rows * kv_heads * blocks], in the order rows, heads, blocks."""
        return torch.from_numpy((tables[:, None, :] * self.heads + self._heads[:, None]).reshape(-1))

    def places(self, slots: Ints) -> Tensor:
        """Indices at which `write` stores the entries of slots [tokens]: [tokens * kv_heads], token by token."""
        blocks, offsets = np.divmod(slots, self.block_tokens)
        pages = blocks[:, None] * self.heads + self._heads
        return torch.from_numpy((pages * self.block_tokens + offsets[:, None]).reshape(-1))

    def write(self, layer: int, places: Tensor, keys: Tensor, values: Tensor, staged: Tensor) -> None:
        """Stores `keys` and `values` [tokens, kv_heads, head_dim] at their `places`; `staged` is dense scratch of that
        shape."""
        flat = staged.view(-1, self.head_dim)
        for store, new in zip(self._places[layer], (keys, values), strict=True):
            staged.copy_(new)
            store.index_copy_(0, places, flat)


def kv_bytes(config: DecoderConfig, blocks: int, block_tokens: int) -> int:
    """Bytes of one segment for all of K and V with the dummy block, each tensor at a multiple of ALIGNMENT_MAX."""
    one = config.kv_bytes((blocks + 1) * block_tokens) // (2 * config.layers)
    return 2 * config.layers * aligned(one, ALIGNMENT_MAX)
