"""Decides which tensors that break their contract a copy can repair without changing a value.

    elements in another order, or not aligned     contract.copied    a dense, aligned copy
    a narrower integer dtype                      contract.cast      equal numbers in the required dtype

All other violations are refused: a float of another width has already lost digits, and a wrong rank, extent or device
shows that another tensor was meant.
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
"""Required dtype -> dtypes whose values it can all hold."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Replaces tensor number `at` of the call by a copy with these facts."""

    at: int
    facts: TensorFacts
    cast: bool
    """True when the copy has another dtype."""


def repairs(
    specs: Sequence[TensorSpec], facts: Sequence[TensorFacts], violation: ContractViolation
) -> Iterator[Repair]:
    """A repair for each tensor that breaks a rule. Raises `violation` when one of them can't be repaired."""
    rules: dict[str, set[Rule]] = {}
    for breach in violation.violations:
        rules.setdefault(breach.tensor, set()).add(breach.rule)
    at = {spec.name: place for place, spec in enumerate(specs)}
    if not all(name in at and _repairable(specs[at[name]], facts[at[name]], broken) for name, broken in rules.items()):
        raise violation
    for name, broken in rules.items():
        spec, one = specs[at[name]], facts[at[name]]
        strides = dense_strides(spec.layout, one.shape) or dense_strides(Layout.ROWS, one.shape)
        assert strides is not None, "the layout rows has dense strides"
        dense = one._replace(strides=strides, dtype=spec.dtype, address=0)
        yield Repair(at[name], dense, Rule.DTYPE in broken)


def _repairable(spec: TensorSpec, facts: TensorFacts, broken: set[Rule]) -> bool:
    if spec.in_place or broken - _COPY - {Rule.DTYPE}:
        return False
    return Rule.DTYPE not in broken or facts.dtype in _CASTS.get(spec.dtype, ())
