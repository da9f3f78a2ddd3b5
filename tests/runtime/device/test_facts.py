"""Facts of torch tensors are those of torch, and agree with numpy's about the same memory."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from runtime.contract.spec import ITEM_BYTES
from runtime.contract.step import facts_of_array
from runtime.device.facts import facts_of


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_dtypes_have_torchs_names_and_sizes(dtype: str) -> None:
    tensor = torch.empty(3, dtype=getattr(torch, dtype))
    assert facts_of(tensor, "t").dtype == dtype
    assert tensor.element_size() == ITEM_BYTES[dtype]


def test_a_view_is_told_as_it_lies() -> None:
    whole = torch.zeros(6, 8, dtype=torch.float16)
    part = whole.t()[2:, ::3]
    facts = facts_of(part, "part")
    assert facts == ("part", (6, 2), (1, 24), "float16", "cpu", whole.data_ptr() + 4)
    assert {type(size) for size in facts.shape} == {int}


def test_torch_and_numpy_tell_the_same_of_the_same_memory() -> None:
    for array in (np.arange(12), np.ones((3, 4), np.float32).T, np.arange(20)[::2]):
        assert facts_of(torch.from_numpy(array), "a") == facts_of_array(array, "a")


def test_devices_of_one_kind_are_told_apart() -> None:
    second = SimpleNamespace(  # no tensor on a second GPU can be made everywhere
        shape=(2,), stride=lambda: (1,), dtype=torch.int64, device=torch.device("cuda", 1), data_ptr=lambda: 64
    )
    assert facts_of(second, "t") == ("t", (2,), (1,), "int64", "cuda:1", 64)  # type: ignore[arg-type]
    assert [facts_of(torch.empty(2, device=name), "t").device for name in ("cpu", "meta")] == ["cpu", "meta"]
