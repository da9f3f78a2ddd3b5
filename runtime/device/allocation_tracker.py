"""Counts the bytes that torch's own allocator hands out in a step, outside of the runtime's pools.

    with AllocationTracker() as tracker:
        model.forward(...)
    tracker.bytes, tracker.by_operator

A result counts when its storage is not that of an argument: views, in-place operators and `out=` do not count. Memory
that an operator allocates and frees inside is not seen; the test of the budget reads torch's own allocator as well.
Memory of numpy (index tensors, masks) does not count.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class AllocationTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Counts inside `with`, for the calling thread only."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_operator: Counter[str] = Counter()
        """Bytes by operator name, in order of first use."""

    @property
    def bytes(self) -> int:
        """Bytes of all operators."""
        return self.by_operator.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and count the new storages of its results; a composite operator is decomposed first."""
        kwargs = kwargs or {}
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
    """Return address -> bytes of the storages of all tensors in a nested structure."""
    return {storage.data_ptr(): storage.nbytes() for storage in _each_storage(tree)}


def _each_storage(tree: Any) -> Iterator[Any]:
    return (leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))
