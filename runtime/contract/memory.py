"""How a tensor lies in memory: layout, and the alignment of its address and of its strides.

An aligned first byte says nothing about the second row: a dense float16 [n, 65] starts wherever it likes and its rows
are 130 bytes apart, so every vector load but the first straddles.
"""

from collections.abc import Iterator

from runtime.contract.spec import Layout, TensorFacts, TensorSpec
from runtime.contract.violation import Rule

Shape = tuple[int, ...]


def memory_faults(spec: TensorSpec, shape: Shape, facts: TensorFacts) -> Iterator[tuple[Rule, str, str]]:
    """(rule, expected, got) of everything wrong with where the elements are."""
    if 0 in shape:
        return  # no elements, nowhere
    strides = facts.strides
    if not lies_as(spec.layout, shape, strides):
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


def lies_as(layout: Layout, shape: Shape, strides: tuple[int, ...]) -> bool:
    """Whether the elements lie so. The stride of a dim with one element is never used, so it may be anything."""
    dense = dense_strides(layout, shape)
    if strides == dense:
        return True
    used = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size > 1]
    if dense is None:
        return all(stride >= 0 for _, stride in used)
    return used == [(size, stride) for size, stride in zip(shape, dense, strict=True) if size > 1]


def dense_strides(layout: Layout, shape: Shape) -> tuple[int, ...] | None:
    """The strides of a dense tensor, in elements; None for layouts that leave them open."""
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
