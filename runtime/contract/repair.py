"""Decides which tensors that break their contract a copy can repair without changing a value.

    elements in another order, or not aligned     contract.copied    a dense, aligned copy
    a narrower integer dtype                      contract.cast      equal numbers in the required dtype

All other violations are refused: a float of another width has already lost digits, and a wrong rank, extent or device
shows that another tensor was meant.
"""

from collections.abc import Iterator, Sequence

from runtime.contract.memory import dense_strides
from runtime.contract.spec import TensorFacts, TensorSpec
from runtime.contract.violation import ContractViolation, Rule

_COPY = frozenset({Rule.LAYOUT, Rule.ADDRESS, Rule.STRIDE})
_CASTS = {
    "int64": frozenset({"bool", "int8", "uint8", "int16", "int32"}),
    "int32": frozenset({"bool", "int8", "uint8", "int16"}),
    "int16": frozenset({"bool", "int8", "uint8"}),
}
"""Required dtype -> dtypes whose values it can all hold."""


def repairs(
    specs: Sequence[TensorSpec], facts: Sequence[TensorFacts], violation: ContractViolation
) -> Iterator[tuple[int, TensorFacts]]:
    """The index of each tensor that breaks a rule, and the facts of the copy that repairs it. Raises `violation` when
    one of them can't be repaired."""
    rules: dict[str, set[Rule]] = {}
    for breach in violation.violations:
        rules.setdefault(breach.tensor, set()).add(breach.rule)
    broken = [(at, spec) for at, spec in enumerate(specs) if spec.name in rules]
    if not all(_repairable(spec, facts[at], rules[spec.name]) for at, spec in broken):
        raise violation
    for at, spec in broken:
        yield at, facts[at]._replace(strides=dense_strides(facts[at].shape), dtype=spec.dtype, address=0)


def _repairable(spec: TensorSpec, facts: TensorFacts, broken: set[Rule]) -> bool:
    if spec.in_place or broken - _COPY - {Rule.DTYPE}:
        return False
    return Rule.DTYPE not in broken or facts.dtype in _CASTS.get(spec.dtype, ())
