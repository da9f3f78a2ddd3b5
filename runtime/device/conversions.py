"""Counts layout conversions in a step: copies to another layout, dtype or device, and views that permute dimensions.

A transpose in a helper costs a few per cent and appears in no other metric:

    with Conversions() as conversions:
        model.run(work)
    conversions.counts          # {"copy_": 6}; the budget of a step, with reasons, is in its test

An operator counts by its effect, not by its name: under `torch.inference_mode` a `contiguous()` of a contiguous tensor
is dispatched too, and copies nothing.
"""

from collections import Counter
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_COPIES = frozenset("contiguous clone _to_copy to reshape flatten ravel _reshape_copy".split())
"""Operators that may copy the elements to new memory."""
_TURNS = frozenset("permute transpose t numpy_T mT mH matrix_H adjoint movedim moveaxis swapaxes swapdims".split())
"""Operators that return a view with permuted dimensions. The view is free, but the next kernel is slower on it."""


class Conversions(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Counts conversions inside `with`, for the calling thread only. Operators of numpy are not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()
        """Conversions by operator name, in order of first use."""

    @property
    def total(self) -> int:
        """Number of conversions of all operators."""
        return self.counts.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and compare the layout of its result with that of its first tensor."""
        name = func.overloadpacket.__name__
        source = args[1] if name == "copy_" else args[0] if args else None
        before = _lie(source) if isinstance(source, Tensor) else None
        result = func(*args, **(kwargs or {}))
        if before is not None and isinstance(result, Tensor) and _converts(name, before, _lie(result)):
            self.counts[name] += 1
        return result


_Lie = tuple[int, tuple[int, ...], object, object]


def _lie(tensor: Tensor) -> _Lie:
    """Return storage address, strides of the dimensions with more than one element, dtype and device."""
    strides = tuple(stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    return tensor.untyped_storage().data_ptr(), strides, tensor.dtype, tensor.device


def _converts(name: str, before: _Lie, after: _Lie) -> bool:
    if name in _COPIES:
        return before[0] != after[0]
    if name in _TURNS:
        return before[1] != after[1]
    return name == "copy_" and before[1:] != after[1:]  # a copy into a fixed buffer counts only if it converts
