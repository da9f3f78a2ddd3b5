"""Register: what a graph promises to take and to give, and the facts about a real tensor that are held against it."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from runtime.contract.dims import Dim, Extent, Ragged, Size, extent

ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4,
    "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip
"""Bytes of one element, by dtype as torch names it."""


class TensorFacts(NamedTuple):
    """What a device says about a tensor it made. A plain tuple, because one is made for each tensor of each step."""

    name: str
    shape: tuple[int | tuple[int, ...], ...]
    """A ragged tensor gives one length a row as its last entry: `(2, (4, 7))`."""
    strides: tuple[int, ...]
    """In elements; empty for a ragged one, which is not in one piece."""
    dtype: str
    device: str
    address: int
    """Of the first byte; 0 when it has none."""


class Layout(StrEnum):
    """In which order the elements lie in memory."""

    ROWS = "rows"  # dense, last dim fastest (torch's contiguous; NCHW)
    COLUMNS = "columns"  # dense, first dim fastest
    CHANNELS_LAST = "channels_last"  # dense, dim 1 of 4 fastest (NHWC)
    STRIDED = "strided"  # any strides that are not negative: views into something larger
    RAGGED = "ragged"  # one length a row, not in one piece


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. `alignment_bytes` holds for the first byte and for every stride but the unit one."""

    name: str
    shape: tuple[Size | Ragged, ...]
    dtype: str
    device: str = "cpu"
    layout: Layout = Layout.ROWS
    alignment_bytes: int = 1

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
        ragged = [axis for axis, size in enumerate(self.shape) if isinstance(size, Ragged)]
        if ragged != ([1] if self.layout is Layout.RAGGED else []) or (ragged and len(self.shape) != 2):
            problems.append("shape (rows, Ragged(dim)) and layout ragged belong together")
        if problems:
            raise ValueError(f'tensor "{self.name}": {"; ".join(problems)}')

    @cached_property
    def extents(self) -> tuple[Extent, ...]:
        """The shape without its ragged entry."""
        return tuple(extent(size) for size in self.shape if not isinstance(size, Ragged))

    @cached_property
    def ragged(self) -> Dim | None:
        """What each row's length is held to."""
        last = self.shape[-1] if self.shape else 0
        return last.dim if isinstance(last, Ragged) else None

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class IOSpec:
    """All inputs and outputs of a graph. Outputs may only use dims that the inputs determine."""

    graph: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...] = ()

    def __post_init__(self) -> None:
        if problems := [*_twice(self), *_two_meanings(self), *_undetermined(self)]:
            raise ValueError(f'graph "{self.graph}": {"; ".join(problems)}')

    @cached_property
    def digest(self) -> str:
        """Equal for equal contracts, and the same in every process."""
        return blake2b(repr(self).encode(), digest_size=8).hexdigest()

    @cached_property
    def cross_checked(self) -> frozenset[tuple[str, int]]:
        """(input, axis) of the extents that a number or other extents settle: a wrong one can't pass for a new size."""
        places = [(spec.name, axis, one) for spec in self.inputs for axis, one in enumerate(spec.extents)]
        return frozenset(
            (name, axis)
            for at, (name, axis, one) in enumerate(places)
            if not one.unknown(_determined([other for _, _, other in places[:at] + places[at + 1 :]]))
        )


def _twice(io: IOSpec) -> list[str]:
    return [
        f'two {side} are called "{name}"; rename one'
        for side, specs in (("inputs", io.inputs), ("outputs", io.outputs))
        for name in sorted({spec.name for spec in specs if [one.name for one in specs].count(spec.name) > 1})
    ]


def _two_meanings(io: IOSpec) -> list[str]:
    """One name stands for one dim; and a ragged one has a value a row, so nothing else can mean the same."""
    meanings: dict[str, list[Dim]] = {}
    shared: set[str] = set()
    per_row: set[str] = set()
    for spec in (*io.inputs, *io.outputs):
        dims = [dim for one in spec.extents for dim in one.dims]
        shared.update(dim.name for dim in dims)
        if spec.ragged is not None:
            per_row.add(spec.ragged.name)
            dims.append(spec.ragged)
        for dim in dims:
            if dim not in meanings.setdefault(dim.name, []):
                meanings[dim.name].append(dim)
    rules = {name: " and ".join(dim.rule for dim in dims) for name, dims in meanings.items() if len(dims) > 1}
    return [f'dim "{name}" means two things: {rule}' for name, rule in rules.items()] + [
        f'dim "{name}" is ragged and also a single number; use two names' for name in sorted(shared & per_row)
    ]


def _undetermined(io: IOSpec) -> list[str]:
    """Dims that no shape of the inputs gives: they'd be checked against nothing."""
    inputs = [one for spec in io.inputs for one in spec.extents]
    outputs = [one for spec in io.outputs for one in spec.extents]
    known = _determined(inputs)
    undetermined = {dim.name: one for one in (*outputs, *inputs) for dim in one.unknown(known)}
    return [
        f'nothing in the inputs determines dim "{name}" of {one}; give an input where it stands alone, times a constant'
        for name, one in undetermined.items()
    ]


def _determined(extents: list[Extent]) -> dict[str, Dim]:
    """The dims that these extents give a value to, one after the other, as `unify` will."""
    known: dict[str, Dim] = {}
    while found := {
        dim.name: dim for one in extents for dim in one.unknown(known) if [dim] == one.unknown(known) and one.gives(dim)
    }:
        known |= found
    return known
