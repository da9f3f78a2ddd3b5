"""Decode attention that carries the queries to the pages instead of the pages to the queries.

    gather      row 0: page 7, 2, 9 -> copy side by side -> scores, weighted values       moves all of K and V
    by page     page 2, 7, 9 in place: each is met by its owner's query                    moves queries and scores

A query is `head_dim` numbers, a page `block_tokens` times as many, so where a batch uses most pages between its lowest
and highest block, this takes half the time. Pages in between that belong to nobody are computed and thrown away.
"""

from collections.abc import Sequence
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

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them."""
        return self.owner, self.order, self.place


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


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Scratch of `attend`, and the views of it that no layer need make again. Any content."""

    scaled: Tensor
    """[rows * kv_heads, group, head_dim]"""
    asked: Tensor
    scores: Tensor
    """[pages + 1, group, block_tokens]; the last is the page past the run, that fills up short tables."""
    placed: Tensor
    """[rows * kv_heads * blocks a row, group, block_tokens]"""
    by_row: Tensor
    """[rows * kv_heads, group, tokens]"""
    shares: Tensor
    turned: Tensor
    answers: Tensor
    """[pages + 1, group, head_dim]"""
    gathered: Tensor
    scaled_by_query: Tensor
    scores_of_run: Tensor
    scores_past: Tensor
    placed_by_row: Tensor
    by_row_in_blocks: Tensor
    by_row_to_mask: Tensor
    shares_in_blocks: Tensor
    answers_of_run: Tensor
    answers_past: Tensor
    gathered_by_row: Tensor

    @staticmethod
    def on(rows: int, tensors: Sequence[Tensor]) -> "Room":
        """`tensors` have the shapes of `shapes`."""
        scaled, asked, scores, placed, by_row, shares, turned, answers, gathered = tensors
        owners, group, head_dim = scaled.shape
        size = placed.shape[2]
        return Room(
            scaled=scaled,
            asked=asked,
            scores=scores,
            placed=placed,
            by_row=by_row,
            shares=shares,
            turned=turned,
            answers=answers,
            gathered=gathered,
            scaled_by_query=scaled.view(rows, -1, head_dim),
            scores_of_run=scores[:-1],
            scores_past=scores[-1],
            placed_by_row=placed.view(owners, -1, group, size).transpose(1, 2),
            by_row_in_blocks=by_row.view(owners, group, -1, size),
            by_row_to_mask=by_row.view(rows, -1, group, by_row.shape[2]),
            shares_in_blocks=shares.view(owners, group, -1, size),
            answers_of_run=answers[:-1],
            answers_past=answers[-1],
            gathered_by_row=gathered.view(owners, -1, group, head_dim),
        )


def attend(
    pages: Pages, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, room: Room, output: Tensor
) -> None:
    """`queries` [rows, heads, head_dim]; `values` all pages [pages, block_tokens, head_dim], and `keys` the same turned
    [pages, head_dim, block_tokens].

    `mask` is [rows, 1, 1, tokens]. Fills `output` [rows, heads, head_dim].
    """
    torch.mul(queries, queries.shape[2] ** -0.5, out=room.scaled_by_query)
    torch.index_select(room.scaled, 0, pages.owner, out=room.asked)
    torch.bmm(room.asked, keys[pages.first : pages.last], out=room.scores_of_run)
    room.scores_past.zero_()
    torch.index_select(room.scores, 0, pages.order, out=room.placed)
    room.by_row_in_blocks.copy_(room.placed_by_row)
    room.by_row_to_mask.add_(mask)
    torch.softmax(room.by_row, 2, out=room.shares)
    room.placed_by_row.copy_(room.shares_in_blocks)
    torch.index_select(room.placed, 0, pages.place, out=room.turned)
    torch.bmm(room.turned, values[pages.first : pages.last], out=room.answers_of_run)
    room.answers_past.zero_()
    torch.index_select(room.answers, 0, pages.order, out=room.gathered)
    torch.sum(room.gathered_by_row, 1, out=output.view(room.scaled.shape))


def shapes(pages: Pages, queries: Tensor, kv_heads: int, block_tokens: int) -> tuple[tuple[int, ...], ...]:
    """Of the nine tensors of a Room, in its order."""
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
