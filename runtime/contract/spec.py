"""The contract of a graph: specs of the tensors that it takes and gives, and the facts of real tensors that are checked
against them."""

from dataclasses import dataclass
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

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Steps between neighbours along each dim, in elements."""
    dtype: str
    device: str
    address: int
    """Address of the first byte; 0 for a tensor without memory."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output, dense with its last dim fastest (torch's contiguous). `alignment_bytes` holds for the first
    byte and for every stride but the unit one.

    `in_place` means that the graph writes into the tensor's own bytes and other code reads them there (KV pages). Such
    a tensor is never replaced by a repaired copy, since the writes would be lost.
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str
    device: str = "cpu"
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
class ContractKey:
    """The group, model and version that a contract belongs to."""

    group: str = ""
    model: str = ""
    version: str = ""


@dataclass(frozen=True)
class Contract:
    """All inputs and outputs of a graph. Each dim is determined by an input, or is one of `given`: dims whose values
    the caller knows from an earlier graph of the step. Raises ValueError with every problem of the contract."""

    graph: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...] = ()
    given: tuple[Dim, ...] = ()
    key: ContractKey = ContractKey()

    def __post_init__(self) -> None:
        if problems := [*_twice(self), *_two_meanings(self), *_undetermined(self)]:
            raise ValueError(f'graph "{self.graph}": {"; ".join(problems)}')

    def specs(self, outputs: bool = False) -> tuple[TensorSpec, ...]:
        """The specs of the inputs, or of the outputs."""
        return self.outputs if outputs else self.inputs

    @cached_property
    def digest(self) -> str:
        """A digest of all fields, which is equal for equal contracts in every process."""
        return blake2b(repr(self).encode(), digest_size=8).hexdigest()

    @cached_property
    def cross_checked(self) -> frozenset[tuple[str, int]]:
        """(tensor, axis) of the extents that a number, a given dim or other inputs determine, so that a wrong extent
        can't pass for a new value of a dim."""
        inputs = [(spec.name, axis, one) for spec in self.inputs for axis, one in enumerate(spec.extents)]
        outputs = [(spec.name, axis, one) for spec in self.outputs for axis, one in enumerate(spec.extents)]
        extents = [one for _, _, one in inputs]
        return frozenset(
            (name, axis)
            for at, (name, axis, one) in enumerate(inputs + outputs)
            if set(one.dims) <= _determined(extents[:at] + extents[at + 1 :], self.given)
        )


def _twice(contract: Contract) -> list[str]:
    return [
        f'two {side} are called "{name}"; rename one'
        for side, specs in (("inputs", contract.inputs), ("outputs", contract.outputs))
        for name in sorted({spec.name for spec in specs if [one.name for one in specs].count(spec.name) > 1})
    ]


def _two_meanings(contract: Contract) -> list[str]:
    """Problems of names that stand for two different dims."""
    meanings: dict[str, list[Dim]] = {}
    named = [dim for spec in (*contract.inputs, *contract.outputs) for one in spec.extents for dim in one.dims]
    for dim in (*named, *contract.given):
        if dim not in meanings.setdefault(dim.name, []):
            meanings[dim.name].append(dim)
    rules = {name: " and ".join(dim.rule for dim in dims) for name, dims in meanings.items() if len(dims) > 1}
    return [f'dim "{name}" means two things: {rule}' for name, rule in rules.items()]


def _undetermined(contract: Contract) -> list[str]:
    """Problems of dims that no input determines: they would not be checked."""
    inputs = [one for spec in contract.inputs for one in spec.extents]
    outputs = [one for spec in contract.outputs for one in spec.extents]
    known = _determined(inputs, contract.given)
    undetermined = {dim.name: one for one in (*outputs, *inputs) for dim in one.dims if dim not in known}
    return [
        f'nothing in the inputs determines dim "{name}" of {one}; give an input where it stands alone, times a constant'
        for name, one in undetermined.items()
    ]


def _determined(extents: list[Extent], given: tuple[Dim, ...]) -> set[Dim]:
    """The dims that are given, and those that stand alone or times a number."""
    return {*given, *(one.dims[0] for one in extents if len(one.dims) == 1)}
