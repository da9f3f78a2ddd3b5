"""Decode attention that carries the queries to the pages instead of the pages to the queries.

    gather      row 0: page 7, 2, 9 -> copy side by side -> scores, weighted values       moves all of K and V
    by page     page 2, 7, 9 in place: each is met by its owner's query                    moves queries and scores

A query is `head_dim` numbers, a page `block_tokens` times as many, so where a batch uses most pages between its lowest
and highest block, this takes half the time. Pages in between that belong to nobody are computed and thrown away.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int64]

_USED_SHARE_MIN = 0.5
"""Below it the wasted pages cost more than the copy."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The run of pages that a batch reads, and who owns each. Page numbers count from `first`."""

    first: int
    last: int
    owner: Tensor
    """[pages]: row * kv_heads + head; 0 for pages of nobody."""
    order: Tensor
    """[rows * kv_heads * blocks a row]: each table's pages; `last - first`, one past the run, where it is short."""
    place: Tensor
    """[pages]: where each stands in `order`; 0 for pages of nobody."""


def run_of_pages(tables: Ints, lengths: Ints, kv_heads: int) -> Pages | None:
    """For block tables [rows, blocks] of which `lengths` are real; None when gathering is better or needed.

    A block that two rows share has two owners, so it needs gathering.
    """
    real = np.arange(tables.shape[1]) < lengths[:, None]
    used = tables[real]
    low, high = int(used.min()), int(used.max()) + 1
    if len(used) < _USED_SHARE_MIN * (high - low):
        return None
    heads = np.arange(kv_heads)[:, None]
    pages = (high - low) * kv_heads
    order = np.where(real[:, None, :], (tables[:, None, :] - low) * kv_heads + heads, pages).reshape(-1)
    held = np.flatnonzero(order < pages)
    place = np.zeros(pages, np.int64)
    place[order[held]] = held
    if not np.array_equal(place[order[held]], held):
        return None
    owner = place // tables.shape[1]
    return Pages(low * kv_heads, high * kv_heads, *(torch.from_numpy(each) for each in (owner, order, place)))


def attend(pages: Pages, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """`queries` [rows * kv_heads, group, head_dim], scaled; `keys`, `values` all pages [pages, block_tokens, head_dim].

    `mask` is [rows, 1, 1, tokens]. Gives [rows * kv_heads, group, head_dim].
    """
    rows, group, head_dim = queries.shape
    count, size = pages.last - pages.first, keys.shape[1]
    scores = queries.new_zeros((count + 1, group, size))
    torch.bmm(queries.index_select(0, pages.owner), keys[pages.first : pages.last].transpose(1, 2), out=scores[:count])
    by_row = scores.index_select(0, pages.order).view(rows, -1, group, size).transpose(1, 2).reshape(rows, group, -1)
    by_row.view(len(mask), -1, group, mask.shape[3]).add_(mask)
    shares = torch.softmax(by_row, 2).view(rows, group, -1, size).transpose(1, 2).reshape(-1, group, size)
    output = queries.new_zeros((count + 1, group, head_dim))
    torch.bmm(shares.index_select(0, pages.place), values[pages.first : pages.last], out=output[:count])
    return output.index_select(0, pages.order).view(rows, -1, group, head_dim).sum(1)
