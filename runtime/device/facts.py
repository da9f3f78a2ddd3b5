"""What the contract is told about a torch tensor. Reading it starts no kernel and waits for none."""

from functools import cache

import torch
from torch import Tensor

from runtime.contract.spec import TensorFacts


def facts_of(tensor: Tensor, name: str) -> TensorFacts:
    """Facts of a dense tensor, under the name that its contract has for it."""
    return TensorFacts(
        name=name,
        shape=tuple(tensor.shape),
        strides=tensor.stride(),
        dtype=_name(tensor.dtype),
        device=str(tensor.device),
        address=tensor.data_ptr(),
    )


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
