"""Which broken tensors a copy can mend without changing a value, and what the copy must look like.

    elements in another order, or not aligned     contract.copied    a dense, aligned copy
    a narrower whole-number dtype                 contract.cast      the same numbers in the dtype asked for

Everything else is refused: a float of another width has lost digits before it came here, and a wrong rank, extent or
device says that it is not the tensor that was meant.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runtime.contract.memory import dense_strides
from runtime.contract.spec import Layout, TensorFacts, TensorSpec
from runtime.contract.violation import ContractViolation, Rule

_COPY = frozenset({Rule.LAYOUT, Rule.ADDRESS, Rule.STRIDE})
_CASTS = {
    "int64": frozenset({"bool", "int8", "uint8", "int16", "int32"}),
    "int32": frozenset({"bool", "int8", "uint8", "int16"}),
    "int16": frozenset({"bool", "int8", "uint8"}),
}
"""dtype asked for -> dtypes whose every value it holds."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Tensor `at` of the call is to be replaced by a copy with these facts."""

    at: int
    facts: TensorFacts
    cast: bool
    """Whether the copy has another dtype."""


def repairs(
    specs: Sequence[TensorSpec], facts: Sequence[TensorFacts], violation: ContractViolation
) -> Iterator[Repair]:
    """One for each tensor at fault. Raises `violation` when one of them can't be mended."""
    rules: dict[str, set[Rule]] = {}
    for breach in violation.violations:
        rules.setdefault(breach.tensor, set()).add(breach.rule)
    at = {spec.name: place for place, spec in enumerate(specs)}
    if not all(name in at and _mends(specs[at[name]], facts[at[name]], broken) for name, broken in rules.items()):
        raise violation
    for name, broken in rules.items():
        spec, one = specs[at[name]], facts[at[name]]
        strides = dense_strides(spec.layout, one.shape) or dense_strides(Layout.ROWS, one.shape)
        assert strides is not None, "rows have a dense form"
        dense = one._replace(strides=strides, dtype=spec.dtype, address=0)
        yield Repair(at[name], dense, Rule.DTYPE in broken)


def _mends(spec: TensorSpec, facts: TensorFacts, broken: set[Rule]) -> bool:
    if spec.in_place or broken - _COPY - {Rule.DTYPE}:
        return False
    return Rule.DTYPE not in broken or facts.dtype in _CASTS.get(spec.dtype, ())
