"""Hidden conversions are counted by what they do, with and without inference mode; laying out a launch needs none."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.contract_bind import launch
from runtime.device.conversions import Conversions
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner


def turned(square: Tensor) -> Tensor:
    """Its transpose, made by an operator that is not counted."""
    return square.as_strided((4, 4), (1, 4))


CONVERTS: dict[str, Callable[[Tensor], object]] = {
    "contiguous": lambda square: turned(square).contiguous(),
    "clone": lambda square: square.clone(),
    "to another dtype": lambda square: square.to(torch.float16),
    "half": lambda square: square.half(),
    "to another device": lambda square: square.to("meta"),
    "to another memory format": lambda square: square[None, None].to(memory_format=torch.channels_last, copy=True),
    "permute": lambda square: square.permute(1, 0),
    "transpose": lambda square: square.transpose(0, 1),
    "t": lambda square: square.t(),
    "mT": lambda square: square.mT,
    "movedim": lambda square: square.movedim(0, 1),
    "reshape that copies": lambda square: square[:, :3].reshape(-1),
    "flatten that copies": lambda square: square[:, :3].flatten(),
    "copy_ that changes the dtype": lambda square: torch.empty(4, 4, dtype=torch.float64).copy_(square),
    "copy_ that changes the order": lambda square: torch.empty(4, 4).copy_(turned(square)),
}
KEEPS: dict[str, Callable[[Tensor], object]] = {
    "contiguous of the contiguous": lambda square: square.contiguous(),
    "to the same": lambda square: square.to(torch.float32).to("cpu").float(),
    "views": lambda square: square[1:, None].squeeze(1).view(-1)[::2].unsqueeze(0).expand(3, 6),
    "reshape that views": lambda square: square.reshape(2, 8).flatten(),
    "turning a row": lambda square: square[:1].reshape(1, 4).t(),
    "filling a fixed buffer": lambda square: torch.empty(4, 4).copy_(square),
    "new tensors": lambda square: (torch.zeros(3), torch.from_numpy(square.numpy()), torch.arange(4)),
    "compute": lambda square: torch.softmax(square @ square + 1, 0).index_select(0, torch.tensor([1])),
}


@pytest.fixture(params=[False, True], ids=["plain", "inference"])
def inference(request: pytest.FixtureRequest) -> Iterator[bool]:
    with torch.inference_mode() if request.param else nullcontext():
        yield request.param


@pytest.mark.parametrize("what", CONVERTS)
def test_a_conversion_is_counted(what: str, inference: bool) -> None:
    square = torch.arange(16.0).view(4, 4)
    with Conversions() as conversions:
        CONVERTS[what](square)
    assert conversions.total == 1, conversions.counts


@pytest.mark.parametrize("what", KEEPS)
def test_what_moves_nothing_is_not_counted(what: str, inference: bool) -> None:
    square = torch.arange(16.0).view(4, 4)
    with Conversions() as conversions:
        KEEPS[what](square)
    assert not conversions.counts, what


def test_outside_of_with_nothing_is_counted() -> None:
    with Conversions() as conversions:
        pass
    torch.zeros(2, 2).clone()
    assert conversions.total == 0


def budget(rows: Sequence[tuple[int, int]], layers: int, by_page: bool) -> dict[str, int]:
    """All conversions that a step of (tokens behind, new tokens) rows may have, each with its reason."""
    fed = sum(new for _, new in rows)
    copies = 2 * layers if fed > 1 else 0  # K and V come out of the fused product in strides, pages take dense rows
    turns = 0
    if by_page:
        copies += 2 * layers  # scores by page into scores by row for the softmax, and its shares back
    for behind, new in rows:
        if new > 1:
            turns += 2  # a view of queries and one of the output: the fused kernel wants heads before tokens
            turns += 0 if behind else 2  # and so of the chunk's own K and V
    return {name: n for name, n in (("copy_", copies), ("transpose", turns)) if n}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("by_page", [True, False])
@pytest.mark.parametrize(
    "rows", [[(40, 1)], [(40, 1)] * 5, [(0, 48)], [(32, 20)], [(0, 9), (16, 5), (7, 1), (20, 1)]], ids=str
)
def test_a_whole_step_stays_within_its_budget(rows: list[tuple[int, int]], by_page: bool, exact: bool) -> None:
    config = read_config(default_model())
    decoder = Decoder(config, load_weights(default_model(), config), batch_invariant=exact)
    model = ModelRunner(decoder, PagedKv(config, 96, 16))
    work = launch(rows)
    if not by_page:  # blocks far apart
        tables = work.block_tables
        slots = work.slots // 16 * 96 + work.slots % 16
        work = replace(work, block_tables=np.where(tables < 0, tables, tables * 6), slots=slots)
    model.run(work)
    with torch.inference_mode(), Conversions() as conversions:
        model._step(work)
    decodes = any(new == 1 for _, new in rows)
    told = model.conversions["prefill" if work.tokens > work.rows else "decode"]
    assert conversions.total <= told <= conversions.total + 1, "the first step turns a view that is kept"
    if exact:
        assert conversions.total > 0, "exact mode pays for bits that do not depend on the batch, and has no budget"
    else:
        assert dict(conversions.counts) == budget(rows, config.layers, by_page and decodes)
