"""Facts of torch tensors are those of torch, and a tensor made to given facts has them and keeps the values."""

from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from runtime.contract.spec import ITEM_BYTES, TensorFacts
from runtime.device.facts import TorchTensors

TENSORS = TorchTensors()


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_dtypes_have_torchs_names_and_sizes(dtype: str) -> None:
    tensor = torch.empty(3, dtype=getattr(torch, dtype))
    assert TENSORS.facts(tensor).dtype == dtype
    assert tensor.element_size() == ITEM_BYTES[dtype]


def test_a_view_is_told_as_it_lies() -> None:
    whole = torch.zeros(6, 8, dtype=torch.float16)
    part = whole.t()[2:, ::3]
    assert TENSORS.facts(part) == ((6, 2), (1, 24), "float16", "cpu", whole.data_ptr() + 4)


def test_devices_of_one_kind_are_told_apart() -> None:
    second = SimpleNamespace(  # no tensor on a second GPU can be made everywhere
        shape=(2,),
        stride=lambda: (1,),
        dtype=torch.int64,
        device=torch.device("cuda", 1),
        is_cpu=False,
        data_ptr=lambda: 64,
    )
    assert TENSORS.facts(second) == ((2,), (1,), "int64", "cuda:1", 64)  # type: ignore[arg-type]
    assert [TENSORS.facts(torch.empty(2, device=name)).device for name in ("cpu", "meta")] == ["cpu", "meta"]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from(["int64", "int32", "float32", "float16", "float64"]),
    st.integers(0, 127),
    st.booleans(),
)
def test_a_tensor_made_to_facts_has_them_and_holds_the_values(
    shape: list[int], gap: int, dtype: str, residue: int, one_more: bool
) -> None:
    tensor = torch.arange(1, 1 + torch.Size(shape).numel()).view(shape)
    strides = [gap * stride for stride in tensor.stride()]
    wanted = TensorFacts((*shape, *[1] * one_more), (*strides, *[1] * one_more), dtype, "cpu", residue)
    with torch.inference_mode():
        made = TENSORS.laid_out(tensor, wanted)
    told = TENSORS.facts(made)
    assert told[:4] == wanted[:4]
    assert told.address % 128 == residue
    assert made.reshape(-1).tolist() == tensor.reshape(-1).tolist()


def test_room_beyond_the_values_is_zero_and_what_has_no_memory_is_only_told() -> None:
    tensor = torch.ones(2, 3)
    longer = TENSORS.laid_out(tensor, TensorFacts((3, 3), (3, 1), "float32", "cpu", 0))
    assert longer.tolist() == [[1.0] * 3, [1.0] * 3, [0.0] * 3]
    nowhere = TENSORS.laid_out(tensor, TensorFacts((2, 3), (3, 1), "float32", "meta", 0))
    assert TENSORS.facts(nowhere) == ((2, 3), (3, 1), "float32", "meta", 0)
