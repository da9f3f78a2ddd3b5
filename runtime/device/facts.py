"""Facts of torch tensors for the contract (shape, strides, dtype, device, address), and tensors that have given facts.
Reading facts launches no kernel and waits for none."""

import torch
from torch import Tensor

from runtime.contract.spec import ITEM_BYTES, TensorFacts

_NAMES = {getattr(torch, name): name for name in ITEM_BYTES}
_ALIGNMENT = 128
"""Bytes. Tensors are made at an address that equals the wanted one modulo this."""


class TorchTensors:
    """Implements `runtime.contract.binder.Tensors`."""

    def facts(self, tensor: Tensor) -> TensorFacts:
        """See Tensors."""
        device = "cpu" if tensor.is_cpu else str(tensor.device)
        dtype = _NAMES.get(tensor.dtype) or str(tensor.dtype)
        return TensorFacts(tensor.shape, tensor.stride(), dtype, device, tensor.data_ptr())

    def laid_out(self, tensor: Tensor, facts: TensorFacts) -> Tensor:
        """See Tensors."""
        dtype: torch.dtype = getattr(torch, facts.dtype)
        shape, strides = tuple(facts.shape), facts.strides
        if facts.device == "meta":
            return torch.empty_strided(shape, strides, dtype=dtype, device="meta")
        assert facts.device == "cpu", f"no tensor is made on {facts.device} yet"
        reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        if 0 in shape:
            return torch.empty_strided(shape, strides, dtype=dtype)
        raw = bytearray(reach * dtype.itemsize + _ALIGNMENT)
        # `frombuffer` takes any byte offset; a view of a tensor can't begin inside an element.
        base = torch.frombuffer(raw, dtype=torch.uint8).data_ptr()
        skipped = (facts.address - base) % _ALIGNMENT
        made = torch.frombuffer(raw, dtype=dtype, count=reach, offset=skipped).as_strided(shape, strides)
        target = made
        while target.dim() > tensor.dim():
            target = target[..., 0]
        target[tuple(slice(size) for size in tensor.shape)].copy_(tensor)
        return made
