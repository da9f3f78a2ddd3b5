"""Specs of the tensors that a graph takes and gives, and the facts of real tensors that are checked against them."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from runtime.contract.dims import Dim, Extent, Size, extent

ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4,
    "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip
"""Bytes of one element, by dtype as torch names it."""


class TensorFacts(NamedTuple):
    """The facts of a tensor, as its device reports them. A plain tuple, since each tensor of each step gets one."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Steps between neighbours along each dim, in elements."""
    dtype: str
    device: str
    address: int
    """Address of the first byte; 0 for a tensor without memory."""


class Layout(StrEnum):
    """The order of the elements in memory."""

    ROWS = "rows"  # dense, last dim fastest (torch's contiguous; NCHW)
    COLUMNS = "columns"  # dense, first dim fastest
    CHANNELS_LAST = "channels_last"  # dense, dim 1 of 4 fastest (NHWC)
    STRIDED = "strided"  # any strides that are not negative: views into something larger


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. `alignment_bytes` holds for the first byte and for every stride but the unit one.

    `in_place` means that the graph writes into the tensor's own bytes and other code reads them there (KV pages). Such
    a tensor is never replaced by a repaired copy, since the writes would be lost.
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str
    device: str = "cpu"
    layout: Layout = Layout.ROWS
    alignment_bytes: int = 1
    in_place: bool = False

    def __post_init__(self) -> None:
        problems = []
        if self.dtype not in ITEM_BYTES:
            problems.append(f'dtype "{self.dtype}" is not one of {", ".join(ITEM_BYTES)}')
        if self.alignment_bytes < 1 or self.alignment_bytes & (self.alignment_bytes - 1):
            problems.append(f"alignment_bytes is {self.alignment_bytes}; give a power of two")
        if any(isinstance(size, int) and size < 0 for size in self.shape):
            problems.append(f"shape {self.shape} has a negative number; a dim that varies is a Dim, never -1")
        if self.layout is Layout.CHANNELS_LAST and len(self.shape) != 4:
            problems.append(f"channels_last has 4 dims, not {len(self.shape)}")
        if problems:
            raise ValueError(f'tensor "{self.name}": {"; ".join(problems)}')

    @cached_property
    def extents(self) -> tuple[Extent, ...]:
        """The shape as extents."""
        return tuple(extent(size) for size in self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class IOSpec:
    """All inputs and outputs of a graph. Each dim is determined by an input, or is one of `given`: dims whose values
    the caller knows from an earlier graph of the step. Raises ValueError with every problem of the spec."""

    graph: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...] = ()
    given: tuple[Dim, ...] = ()

    def __post_init__(self) -> None:
        if problems := [*_twice(self), *_two_meanings(self), *_undetermined(self)]:
            raise ValueError(f'graph "{self.graph}": {"; ".join(problems)}')

    @cached_property
    def digest(self) -> str:
        """A digest that is equal for equal specs, in every process."""
        return blake2b(repr(self).encode(), digest_size=8).hexdigest()

    @cached_property
    def cross_checked(self) -> frozenset[tuple[str, int]]:
        """(tensor, axis) of the extents that a number, a given dim or other inputs determine, so that a wrong extent
        can't pass for a new value of a dim."""
        inputs = [(spec.name, axis, one) for spec in self.inputs for axis, one in enumerate(spec.extents)]
        known = _determined([one for _, _, one in inputs], self.given)
        return frozenset(
            (name, axis)
            for at, (name, axis, one) in enumerate(inputs)
            if not one.unknown(_determined([other for _, _, other in inputs[:at] + inputs[at + 1 :]], self.given))
        ) | frozenset(
            (spec.name, axis)
            for spec in self.outputs
            for axis, one in enumerate(spec.extents)
            if not one.unknown(known)
        )


def _twice(io: IOSpec) -> list[str]:
    return [
        f'two {side} are called "{name}"; rename one'
        for side, specs in (("inputs", io.inputs), ("outputs", io.outputs))
        for name in sorted({spec.name for spec in specs if [one.name for one in specs].count(spec.name) > 1})
    ]


def _two_meanings(io: IOSpec) -> list[str]:
    """Problems of names that stand for two different dims."""
    meanings: dict[str, list[Dim]] = {}
    named = [dim for spec in (*io.inputs, *io.outputs) for one in spec.extents for dim in one.dims]
    for dim in (*named, *io.given):
        if dim not in meanings.setdefault(dim.name, []):
            meanings[dim.name].append(dim)
    rules = {name: " and ".join(dim.rule for dim in dims) for name, dims in meanings.items() if len(dims) > 1}
    return [f'dim "{name}" means two things: {rule}' for name, rule in rules.items()]


def _undetermined(io: IOSpec) -> list[str]:
    """Problems of dims that no input determines: they would not be checked."""
    inputs = [one for spec in io.inputs for one in spec.extents]
    outputs = [one for spec in io.outputs for one in spec.extents]
    known = _determined(inputs, io.given)
    undetermined = {dim.name: one for one in (*outputs, *inputs) for dim in one.unknown(known)}
    return [
        f'nothing in the inputs determines dim "{name}" of {one}; give an input where it stands alone, times a constant'
        for name, one in undetermined.items()
    ]


def _determined(extents: list[Extent], given: tuple[Dim, ...]) -> dict[str, Dim]:
    """The dims that are given and those that these extents determine one after the other, as in `unify`."""
    known = {dim.name: dim for dim in given}
    while found := {
        dim.name: dim for one in extents for dim in one.unknown(known) if [dim] == one.unknown(known) and one.gives(dim)
    }:
        known |= found
    return known
