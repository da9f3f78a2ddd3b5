"""Validate: hold facts against a contract and find every violation, not only the first. Pure; nothing is cached here.

A tensor of the wrong rank takes no part in the solving of dims: which of its extents is which is anybody's guess, and
to compare those that line up is how a rank mismatch once passed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from runtime.contract.memory import memory_faults
from runtime.contract.registry import Contract
from runtime.contract.spec import Layout, TensorFacts, TensorSpec
from runtime.contract.unify import Equation, unify
from runtime.contract.violation import ContractViolation, Rule, Violation

Facts = Sequence[TensorFacts]


@dataclass(frozen=True, slots=True)
class Inferred:
    """An output as this bind determines it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str


@dataclass(frozen=True, slots=True)
class Binding:
    """Inputs that keep their contract: what each dim is, and what the outputs will be. Shared between steps."""

    contract: Contract = field(repr=False)
    dims: Mapping[str, int]
    outputs: tuple[Inferred, ...]


def bind(contract: Contract, facts: Facts) -> Binding:
    """Infer and validate. Raises ContractViolation with everything that is wrong."""
    io = contract.io
    violations, dims = _held_against(io.graph, io.inputs, facts)
    outputs: list[Inferred] = []
    if not violations:
        for spec in io.outputs:
            shape = tuple(extent.value(dims) for extent in spec.extents)
            outputs.append(Inferred(spec.name, shape, spec.dtype, spec.device))
            if min(shape, default=0) < 0:
                violations.append(Violation(io.graph, spec.name, Rule.RANGE, "extents of 0 or more", f"{shape}"))
    if violations:
        raise ContractViolation(violations)
    return Binding(contract, MappingProxyType(dict(dims)), tuple(outputs))


def check_outputs(binding: Binding, facts: Facts) -> None:
    """What the graph made is what its binding said. Raises ContractViolation with everything that is not."""
    io = binding.contract.io
    violations, _ = _held_against(io.graph, io.outputs, facts, binding.dims)
    if violations:
        raise ContractViolation(violations)


def row_violations(contract: Contract, facts: Facts) -> list[Violation]:
    """Rows of ragged inputs whose length breaks their dim's rule: the one thing that is looked at in every step."""
    found: list[Violation] = []
    for name, spec in contract.ragged.items():
        for one in facts:
            if one.name == name and isinstance(lengths := one.shape[-1], tuple):
                found += _row_violations(contract.io.graph, spec, lengths)
    return found


def _held_against(
    graph: str, specs: Sequence[TensorSpec], facts: Facts, given: Mapping[str, int] | None = None
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
        shaped = _shaped(spec, one)
        for rule, expected, got in _one_by_one(spec, one, shaped):
            violations.append(Violation(graph, spec.name, rule, expected, got))
        if shaped:
            equations += _equations(spec, one)
            if spec.ragged is not None and isinstance(lengths := one.shape[-1], tuple):
                violations += _row_violations(graph, spec, lengths)
    known = ", ".join(spec.name for spec in specs)
    strangers = [name for name in counts if name not in {spec.name for spec in specs}]
    violations += [Violation(graph, name, Rule.PRESENT, f"one of {known}", "a stranger") for name in strangers]
    unified = unify(equations, given)
    for conflict in unified.conflicts:
        at = conflict.equation
        got = f"{at.got} at dim {at.axis} of {by_name[at.tensor].shape}"
        violations.append(Violation(graph, at.tensor, conflict.rule, conflict.expected, got))
    return violations, unified.values


def _one_by_one(spec: TensorSpec, facts: TensorFacts, shaped: bool) -> Iterator[tuple[Rule, str, str]]:
    """What is wrong with a tensor by itself."""
    if facts.dtype != spec.dtype:
        yield Rule.DTYPE, spec.dtype, facts.dtype
    if facts.device != spec.device:
        yield Rule.DEVICE, spec.device, facts.device
    if len(facts.shape) != len(spec.shape):
        yield Rule.RANK, f"{len(spec.shape)} dims", f"{len(facts.shape)} with shape {facts.shape}"
    elif not shaped:
        yield Rule.LAYOUT, f"{spec.layout}", f"shape {facts.shape} with strides {facts.strides}"
    elif spec.layout is not Layout.RAGGED:
        yield from memory_faults(spec, facts.shape, facts)  # type: ignore[arg-type]  # shaped: all are numbers


def _shaped(spec: TensorSpec, facts: TensorFacts) -> bool:
    """Whether each extent of the facts stands for one of the contract, so that they may be compared."""
    if len(facts.shape) != len(spec.shape):
        return False
    if spec.layout is Layout.RAGGED:
        rows, lengths = facts.shape
        return isinstance(lengths, tuple) and len(lengths) == rows
    return len(facts.strides) == len(facts.shape) and all(isinstance(size, int) for size in facts.shape)


def _equations(spec: TensorSpec, facts: TensorFacts) -> Iterator[Equation]:
    for axis, extent in enumerate(spec.extents):
        size = facts.shape[axis]
        assert isinstance(size, int)
        yield Equation(spec.name, axis, extent, size)


def _row_violations(graph: str, spec: TensorSpec, lengths: tuple[int, ...]) -> list[Violation]:
    dim = spec.ragged
    assert dim is not None
    if not lengths or (dim.multiple_of == 1 and dim.admits(min(lengths)) and dim.admits(max(lengths))):
        return []
    return [
        Violation(graph, spec.name, Rule.RANGE, dim.rule, str(length), row)
        for row, length in enumerate(lengths)
        if not dim.admits(length)
    ]
