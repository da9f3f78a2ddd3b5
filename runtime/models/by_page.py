"""Decode attention that copies queries to the order of the pages, instead of pages to the order of the queries.

    gather      row 0: pages 7, 2, 9 are copied side by side -> scores, weighted values   copies all of K and V
    by page     pages 2, 7, 9 stay in place; each is multiplied with its owner's query    copies queries and scores

A query has `head_dim` numbers and a page has `block_tokens` times as many. Where a batch uses most pages between its
lowest and highest block, this takes half the time. Free pages in between are computed and their results dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from runtime.models.kv import PagedKv
from runtime.models.workspace import Scratch

Ints = npt.NDArray[np.int64]

_USED_SHARE_MIN = 0.5
"""Below this share of used pages, computing the unused ones costs more than a copy."""


@dataclass(frozen=True, slots=True)
class Pages:
    """A run of pages, `first` up to but without `last`, that a batch reads, and the owner of each. Numbers in the
    tensors count from `first`."""

    first: int
    last: int
    owner: Tensor
    """[pages]: row * kv_heads + head; 0 for free pages."""
    order: Tensor
    """[rows * kv_heads * blocks a row]: each table's pages; `last - first`, one past the run, where it is short."""
    place: Tensor
    """[pages]: index of each page in `order`; 0 for free pages."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """`owner`, `order` and `place`."""
        return self.owner, self.order, self.place


def run_of_pages(tables: Ints, lengths: Ints, kv_heads: int) -> Pages | None:
    """The run for block tables [rows, blocks], of which the first `lengths` [rows] blocks are real.

    None when gathering is faster, or when two rows share a block: such a block has two owners.
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


class PageScratch:
    """Scratch tensors of `attend` and views of them, made once for all layers. Their content is undefined."""

    def __init__(self, rows: int, tensors: Sequence[Tensor]) -> None:
        """Makes the views. `tensors` have the shapes that `shapes` gives."""
        scaled, self.queries_by_page, scores, placed, by_row, shares, self.shares_by_page, answers, gathered = tensors
        owners, group, head_dim = scaled.shape
        size = placed.shape[2]
        self.scaled, self.scaled_by_query = scaled, scaled.view(rows, -1, head_dim)
        """[rows * kv_heads, group, head_dim] and [rows, heads, head_dim]"""
        self.scores, self.scores_of_run, self.scores_past = scores, scores[:-1], scores[-1]
        """[pages + 1, group, block_tokens]; the last entry stands for the padding of short block tables."""
        self.placed, self.placed_by_row = placed, placed.view(owners, -1, group, size).transpose(1, 2)
        """[rows * kv_heads * blocks a row, group, block_tokens]"""
        self.by_row, self.by_row_in_blocks = by_row, by_row.view(owners, group, -1, size)
        """[rows * kv_heads, group, tokens], and so are `shares`."""
        self.by_row_to_mask = by_row.view(rows, -1, group, by_row.shape[2])
        self.shares, self.shares_in_blocks = shares, shares.view(owners, group, -1, size)
        self.answers, self.answers_of_run, self.answers_past = answers, answers[:-1], answers[-1]
        """[pages + 1, group, head_dim]"""
        self.gathered, self.gathered_by_row = gathered, gathered.view(owners, -1, group, head_dim)


def attend(
    scratch: Scratch[PageScratch], pages: Pages, mask: Tensor, queries: Tensor, kv: PagedKv, output: Tensor, layer: int
) -> None:
    """Fills `output` [rows, heads, head_dim] from `queries` [rows, heads, head_dim]; `mask` is [rows, 1, 1, tokens]."""
    run = slice(pages.first, pages.last)
    with scratch as at:
        torch.mul(queries, queries.shape[2] ** -0.5, out=at.scaled_by_query)
        torch.index_select(at.scaled, 0, pages.owner, out=at.queries_by_page)
        torch.bmm(at.queries_by_page, kv.transposed_keys[layer][run], out=at.scores_of_run)
        at.scores_past.zero_()
        torch.index_select(at.scores, 0, pages.order, out=at.placed)
        at.by_row_in_blocks.copy_(at.placed_by_row)
        at.by_row_to_mask.add_(mask)
        torch.softmax(at.by_row, 2, out=at.shares)
        at.placed_by_row.copy_(at.shares_in_blocks)
        torch.index_select(at.placed, 0, pages.place, out=at.shares_by_page)
        torch.bmm(at.shares_by_page, kv.value_pages[layer][run], out=at.answers_of_run)
        at.answers_past.zero_()
        torch.index_select(at.answers, 0, pages.order, out=at.gathered)
        torch.sum(at.gathered_by_row, 1, out=output.view(at.scaled.shape))


def shapes(pages: Pages, queries: Tensor, kv_heads: int, block_tokens: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of the nine tensors of a PageScratch, in its order."""
    rows, heads, head_dim = queries.shape
    owners, group = rows * kv_heads, heads // kv_heads
    count, placed = pages.last - pages.first, len(pages.order)
    by_row = (owners, group, placed // owners * block_tokens)
    return (
        (owners, group, head_dim),
        (count, group, head_dim),
        (count + 1, group, block_tokens),
        (placed, group, block_tokens),
        by_row,
        by_row,
        (count, group, block_tokens),
        (count + 1, group, head_dim),
        (placed, group, head_dim),
    )
