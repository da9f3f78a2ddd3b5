"""Counts the bytes that torch allocates by itself in a step: those that no pool of ours handed out.

    with AllocationTracker() as unowned:
        model.forward(...)
    unowned.bytes, unowned.by_operator

An operator's result counts when its memory is none of its arguments': a view, an in-place form and `out=` are not new.
What an operator needs inside and gives back is not seen here; the test that holds the number down asks torch's own
allocator as well. numpy's bytes (index tensors, masks) are not torch's.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_COMPOSITE = "CompositeImplicitAutograd"


class AllocationTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Counts inside `with`, for this thread only."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_operator: Counter[str] = Counter()
        """Bytes, in order of first use."""

    @property
    def bytes(self) -> int:
        """Of all operators."""
        return self.by_operator.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator, in the parts that it is made of, and looks where its results lie."""
        kwargs = kwargs or {}
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE):
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        given = set(_storages((args, kwargs)))
        fresh = {address: size for address, size in _storages(result).items() if address not in given}
        if fresh:
            self.by_operator[func.overloadpacket.__name__] += sum(fresh.values())
        return result


def _storages(tree: Any) -> dict[int, int]:
    """Address -> bytes of what lies behind the tensors in it."""
    return {storage.data_ptr(): storage.nbytes() for storage in _each_storage(tree)}


def _each_storage(tree: Any) -> Iterator[Any]:
    return (leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))
