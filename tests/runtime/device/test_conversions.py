"""Hidden conversions are counted by what they do, with and without inference mode; laying out a launch needs none."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from runtime.device.conversions import Conversions


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
