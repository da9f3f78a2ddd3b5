"""Checks facts against a contract and finds every violation, not only the first. Nothing is cached here.

A tensor of the wrong rank is left out when dims are solved: its extents can't be matched to those of the contract, and
comparing the first ones would let a rank mismatch pass.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from runtime.contract.memory import memory_breaches
from runtime.contract.registry import Contract
from runtime.contract.spec import TensorFacts, TensorSpec
from runtime.contract.unify import Equation, unify
from runtime.contract.violation import ContractViolation, Rule, Violation

Facts = Sequence[TensorFacts]


@dataclass(frozen=True, slots=True)
class Binding:
    """Tensors that keep their contract, and the value of each dim. Shared between steps."""

    contract: Contract = field(repr=False)
    dims: Mapping[str, int]


def bind(contract: Contract, facts: Facts, given: Sequence[int] = (), *, outputs: bool = False) -> Binding:
    """Infers the dims and validates the inputs of a graph, or its `outputs`. `given` are the values of the contract's
    given dims, in its order; outputs may determine further dims. Raises ContractViolation with every violation."""
    io = contract.io
    known = dict(zip((dim.name for dim in io.given), given, strict=True))
    violations, dims = _violations_of(io.graph, contract.specs(outputs), facts, known)
    if violations:
        raise ContractViolation(violations)
    return Binding(contract, MappingProxyType(dict(dims)))


def _violations_of(
    graph: str, specs: Sequence[TensorSpec], facts: Facts, given: Mapping[str, int]
) -> tuple[list[Violation], Mapping[str, int]]:
    counts = Counter(one.name for one in facts)
    by_name = {one.name: one for one in facts}
    violations: list[Violation] = []
    equations: list[Equation] = []
    for spec in specs:
        if counts[spec.name] != 1:
            violations.append(Violation(graph, spec.name, Rule.PRESENT, "one such tensor", str(counts[spec.name])))
            continue
        one = by_name[spec.name]
        shaped = len(one.shape) == len(one.strides) == len(spec.shape)
        violations += [Violation(graph, spec.name, *fault) for fault in _own_breaches(spec, one, shaped)]
        if shaped:
            equations += [Equation(spec.name, axis, size, one.shape[axis]) for axis, size in enumerate(spec.extents)]
    known = ", ".join(spec.name for spec in specs)
    unexpected = [name for name in counts if name not in {spec.name for spec in specs}]
    violations += [
        Violation(graph, name, Rule.PRESENT, f"one of {known}", "an unexpected tensor") for name in unexpected
    ]
    unified = unify(equations, given)
    for conflict in unified.conflicts:
        at = conflict.equation
        got = f"{at.got} at dim {at.axis} of {tuple(by_name[at.tensor].shape)}"
        violations.append(Violation(graph, at.tensor, conflict.rule, conflict.expected, got))
    return violations, unified.values


def _own_breaches(spec: TensorSpec, facts: TensorFacts, shaped: bool) -> Iterator[tuple[Rule, str, str]]:
    """(rule, expected, got) of each rule that a tensor breaks by itself."""
    if facts.dtype != spec.dtype:
        yield Rule.DTYPE, spec.dtype, facts.dtype
    if facts.device != spec.device:
        yield Rule.DEVICE, spec.device, facts.device
    if len(facts.shape) != len(spec.shape):
        yield Rule.RANK, f"{len(spec.shape)} dims", f"{len(facts.shape)} with shape {tuple(facts.shape)}"
    elif not shaped:
        yield Rule.LAYOUT, f"{spec.layout}", f"shape {tuple(facts.shape)} with strides {facts.strides}"
    else:
        yield from memory_breaches(spec, tuple(facts.shape), facts)
