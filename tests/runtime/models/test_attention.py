"""The two ways of decode attention agree, and the quick one is chosen only where it is right."""

import random
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from runtime.core.work import Sampling, Work, padded_tables
from runtime.memory.spans.span import PoolKind
from runtime.models import attention, by_page
from runtime.models.kv import PagedKv
from runtime.models.prepare import StepInputs, prepare
from runtime.models.workspace import Workspace, alone
from tests.runtime.models.worlds import ONE_LAYER


def decode_work(tables: list[list[int]], contexts: list[int]) -> Work:
    rows = len(tables)
    last = [table[(context - 1) // 4] * 4 + (context - 1) % 4 for table, context in zip(tables, contexts, strict=True)]
    return Work(
        step=0,
        model_key="",
        request_ids=tuple(str(row) for row in range(rows)),
        token_ids=np.zeros(rows, np.int64),
        positions=np.array(contexts) - 1,
        slots=np.array(last),
        row_starts=np.arange(rows + 1),
        context_lens=np.array(contexts),
        block_tables=padded_tables(tables),
        sampling=(Sampling(),) * rows,
        prefix_hashes=np.zeros(rows, np.uint64),
    )


def random_kv(blocks: int) -> PagedKv:
    kv = PagedKv(ONE_LAYER, blocks, 4)
    generator = torch.Generator().manual_seed(3)
    for store in (*kv.keys, *kv.values):
        store.normal_(generator=generator)
    return kv


def attend(inputs: StepInputs, queries: torch.Tensor, kv: PagedKv, space: Workspace | None = None) -> torch.Tensor:
    unused, output = torch.zeros(len(queries), 2, 8), torch.empty(len(queries), 48)
    space = alone(ONE_LAYER) if space is None else space
    attention.attention(attention.Operands(inputs, queries, unused, unused, kv, space, output))(0)
    assert not space.held(), "scratch is given back"
    return output


def test_by_page_and_by_gather_give_the_same_outputs() -> None:
    kv = random_kv(12)
    work = decode_work([[3, 9, 1], [0], [8, 2], [5, 7, 6, 4]], [11, 2, 5, 16])
    inputs = prepare(work, kv)
    assert inputs.decode is not None
    assert inputs.decode.run is not None
    queries = torch.randn((4, 6, 8), generator=torch.Generator().manual_seed(4))
    quick = attend(inputs, queries, kv)
    for row, (table, context) in enumerate(zip(work.block_tables, work.context_lens.tolist(), strict=True)):
        keys = kv.keys[0][table[table >= 0]].transpose(0, 1).flatten(1, 2)[:, :context]
        values = kv.values[0][table[table >= 0]].transpose(0, 1).flatten(1, 2)[:, :context]
        shares = torch.softmax(queries[row].view(2, 3, 8) @ keys.transpose(1, 2) * 8**-0.5, -1)
        assert torch.allclose(quick[row], (shares @ values).reshape(-1), atol=1e-5)


def test_sparse_or_shared_blocks_are_gathered() -> None:
    def run(tables: list[list[int]], lengths: list[int]) -> by_page.Pages | None:
        return by_page.run_of_pages(np.array(tables), np.array(lengths), 2)

    assert run([[0, 1], [2, 3]], [2, 2]) is not None
    assert run([[0, 1], [40, 41]], [2, 2]) is None, "far apart"
    assert run([[0, 1], [0, 2]], [2, 2]) is None, "shared"
    assert run([[0, 99], [1, 2]], [1, 2]) is not None, "99 is filling, not a block of the row"


def test_every_page_of_a_run_knows_its_owner() -> None:
    pages = by_page.run_of_pages(np.array([[5, 6, 9], [8, 9, 9]]), np.array([2, 1]), 2)
    assert pages is not None
    assert (pages.first, pages.last) == (10, 18)
    assert pages.owner.tolist() == [0, 1, 0, 1, 0, 0, 2, 3]  # block 7 is nobody's
    assert pages.order.tolist() == [0, 2, 8, 1, 3, 8, 6, 8, 8, 7, 8, 8]


def test_slots_behind_the_last_token_do_not_matter() -> None:
    kv = random_kv(8)
    inputs = prepare(decode_work([[3, 1], [2]], [6, 3]), kv)
    queries = torch.randn((2, 6, 8), generator=torch.Generator().manual_seed(4))
    before = attend(inputs, queries, kv)
    for store in (kv.keys[0], kv.values[0]):
        store[1, :, 2:] = 1e4
        store[2, :, 3:] = 1e4
        store[[0, 4, 5, 6, 7]] = 1e4
    assert torch.equal(before, attend(inputs, queries, kv))


@given(st.integers(1, 9), st.booleans(), st.integers(0, 2**16))
def test_rows_go_in_parts_where_scratch_is_short(rows: int, mixed: bool, seed: int) -> None:
    """The answers are the same, and no part asks for more than scratch holds."""
    kv, chance = random_kv(64), random.Random(seed)
    tables = [chance.sample(range(64), 6) for _ in range(rows)]
    work = decode_work(tables, [24, *(chance.randint(1, 24) for _ in range(rows - 1))])
    inputs = prepare(work, kv)
    assert inputs.decode is not None
    inputs = replace(inputs, decode=replace(inputs.decode, run=None, at=torch.arange(rows) if mixed else None))
    queries = torch.randn((rows, 6, 8), generator=torch.Generator().manual_seed(seed))
    space = alone(ONE_LAYER)
    space.scratch_bytes = 65536 + 2 * 4 * 24 * (2 * 2 * 8 + 2 * 6)  # two rows a part, at most
    assert torch.allclose(attend(inputs, queries, kv, space), attend(inputs, queries, kv), atol=1e-6)
    usage = space.pools[PoolKind.WORKSPACE].usage()
    assert usage.allocs == -(-rows // 2) + mixed
    assert usage.peak_bytes <= space.scratch_bytes + 65536


@pytest.mark.parametrize("tables", [[[3, 9, 1], [0], [8, 2]], [[3, 60, 1], [0], [8, 33]]], ids=["by page", "gathered"])
def test_what_scratch_held_before_is_read_by_nobody(tables: list[list[int]]) -> None:
    """Not even NaN, which no mask covers: one broken request must not reach into the next launch."""
    kv, space = random_kv(64), alone(ONE_LAYER)
    inputs = prepare(decode_work(tables, [11, 2, 5]), kv)
    assert inputs.decode is not None
    assert (inputs.decode.run is not None) == (60 not in tables[0])
    queries = torch.randn((3, 6, 8), generator=torch.Generator().manual_seed(4))
    before = attend(inputs, queries, kv, space)
    with space.scratch((1 << 20,)) as (all_of_it,):
        all_of_it.fill_(torch.nan)
    assert torch.equal(attend(inputs, queries, kv, space), before)
