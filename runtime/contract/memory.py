"""Checks the memory of a tensor: its layout, and the alignment of its address and of its strides.

An aligned first byte does not mean aligned rows: the rows of a dense float16 [n, 65] are 130 bytes apart, so every
vector load but the first crosses an alignment boundary.
"""

from collections.abc import Iterator, Sequence
from math import prod

from runtime.contract.spec import TensorFacts, TensorSpec
from runtime.contract.violation import Rule


def memory_breaches(spec: TensorSpec, facts: TensorFacts) -> Iterator[tuple[Rule, str, str]]:
    """(rule, expected, got) of each memory rule that the tensor breaks."""
    shape, strides = tuple(facts.shape), facts.strides
    if 0 in shape:
        return  # a tensor without elements has no memory
    dense = dense_strides(shape)
    # The stride of a dim with one element is not used and may be any.
    if any(size > 1 and stride != wanted for size, stride, wanted in zip(shape, strides, dense, strict=True)):
        yield Rule.LAYOUT, f"dense strides {dense}", f"{strides} for shape {shape}"
    alignment = spec.alignment_bytes
    if facts.address % alignment:
        yield Rule.ADDRESS, f"a multiple of {alignment} bytes", f"{facts.address:#x}"
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        if size > 1 and stride != 1 and stride * spec.item_bytes % alignment:
            steps = f"{stride} x {spec.item_bytes} bytes at dim {axis}"
            yield Rule.STRIDE, f"every stride but the unit one a multiple of {alignment} bytes", steps


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor whose last dim is fastest, in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
