"""Counts layout conversions: copies into another order, type or place, and views that turn dims, during a step.

A transpose slipped in by a helper costs a few per cent and shows nowhere. Here it shows:

    with Conversions() as conversions:
        model.run(work)
    conversions.counts          # {"copy_": 6}; what a step may have is said, with reasons, in the test of its budget

What counts is what an operator did, not what it is called: under `torch.inference_mode` a `contiguous()` on a
contiguous tensor reaches us by name too, and it moves nothing.
"""

from collections import Counter
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_COPIES = frozenset("contiguous clone _to_copy to reshape flatten ravel _reshape_copy".split())
"""May give the same elements in new memory."""
_TURNS = frozenset("permute transpose t numpy_T mT mH matrix_H adjoint movedim moveaxis swapaxes swapdims".split())
"""Give a view whose dims are in another order: harmless by itself, but the next kernel pays for it."""


class Conversions(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Counts them inside `with`, for this thread only. Operators of numpy are not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()
        """By operator, in order of first use."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.counts.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator and looks at what became of its first tensor."""
        name = func.overloadpacket.__name__
        source = args[1] if name == "copy_" else args[0] if args else None
        before = _lie(source) if isinstance(source, Tensor) else None
        result = func(*args, **(kwargs or {}))
        if before is not None and isinstance(result, Tensor) and _converts(name, before, _lie(result)):
            self.counts[name] += 1
        return result


_Lie = tuple[int, tuple[int, ...], object, object]


def _lie(tensor: Tensor) -> _Lie:
    """Memory, order of the dims that have more than one element, dtype and device."""
    strides = tuple(stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    return tensor.untyped_storage().data_ptr(), strides, tensor.dtype, tensor.device


def _converts(name: str, before: _Lie, after: _Lie) -> bool:
    if name in _COPIES:
        return before[0] != after[0]
    if name in _TURNS:
        return before[1] != after[1]
    return name == "copy_" and before[1:] != after[1:]  # filling a fixed buffer is fine, unless it converts on the way
