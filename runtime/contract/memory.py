"""Checks the memory of a tensor: its layout, and the alignment of its address and of its strides.

An aligned first byte does not mean aligned rows: the rows of a dense float16 [n, 65] are 130 bytes apart, so every
vector load but the first crosses an alignment boundary.
"""

from collections.abc import Iterator

from runtime.contract.spec import Layout, TensorFacts, TensorSpec
from runtime.contract.violation import Rule

Shape = tuple[int, ...]


def memory_breaches(spec: TensorSpec, shape: Shape, facts: TensorFacts) -> Iterator[tuple[Rule, str, str]]:
    """(rule, expected, got) of each memory rule that the tensor breaks."""
    if 0 in shape:
        return  # a tensor without elements has no memory
    strides = facts.strides
    if not has_layout(spec.layout, shape, strides):
        dense = dense_strides(spec.layout, shape)
        expected = "strides of 0 or more" if dense is None else f"{spec.layout} strides {dense}"
        yield Rule.LAYOUT, expected, f"{strides} for shape {shape}"
    alignment = spec.alignment_bytes
    if facts.address % alignment:
        yield Rule.ADDRESS, f"a multiple of {alignment} bytes", f"{facts.address:#x}"
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        if size > 1 and stride != 1 and stride * spec.item_bytes % alignment:
            steps = f"{stride} x {spec.item_bytes} bytes at dim {axis}"
            yield Rule.STRIDE, f"every stride but the unit one a multiple of {alignment} bytes", steps


def has_layout(layout: Layout, shape: Shape, strides: tuple[int, ...]) -> bool:
    """True when the elements lie in this layout. The stride of a dim with one element is not used and may be any."""
    dense = dense_strides(layout, shape)
    if strides == dense:
        return True
    used = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size > 1]
    if dense is None:
        return all(stride >= 0 for _, stride in used)
    return used == [(size, stride) for size, stride in zip(shape, dense, strict=True) if size > 1]


def dense_strides(layout: Layout, shape: Shape) -> tuple[int, ...] | None:
    """The strides of a dense tensor, in elements; None for layouts that do not fix them."""
    rank = len(shape)
    fastest_first: dict[Layout, tuple[int, ...]] = {
        Layout.ROWS: tuple(range(rank - 1, -1, -1)),
        Layout.COLUMNS: tuple(range(rank)),
        Layout.CHANNELS_LAST: (1, 3, 2, 0),
    }
    if layout not in fastest_first:
        return None
    strides = [0] * rank
    step = 1
    for axis in fastest_first[layout]:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)
