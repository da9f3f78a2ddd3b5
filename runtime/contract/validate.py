"""Checks facts against a contract and finds every violation, not only the first. Nothing is cached here.

A tensor of the wrong rank is left out when dims are solved: its extents can't be matched to those of the contract, and
comparing the first ones would let a rank mismatch pass.
"""

from collections.abc import Iterator, Sequence

from runtime.contract.memory import memory_breaches
from runtime.contract.spec import Contract, TensorFacts, TensorSpec
from runtime.contract.unify import Equation, unify
from runtime.contract.violation import Rule, Violation


def violations_of(
    contract: Contract, facts: Sequence[TensorFacts], given: Sequence[int] = (), *, outputs: bool = False
) -> list[Violation]:
    """Infers the dims and validates the inputs of a graph, or its `outputs`, in the order of the contract.

    `given` are the values of the contract's given dims, in its order; outputs may determine further dims.
    """
    graph, violations, equations = contract.graph, list[Violation](), list[Equation]()
    shapes: dict[str, tuple[int, ...]] = {}
    for spec, one in zip(contract.specs(outputs), facts, strict=True):
        shapes[spec.name] = tuple(one.shape)
        shaped = len(one.shape) == len(one.strides) == len(spec.shape)
        violations += [Violation(graph, spec.name, *breach) for breach in _own_breaches(spec, one, shaped)]
        if shaped:
            equations += [Equation(spec.name, axis, size, one.shape[axis]) for axis, size in enumerate(spec.extents)]
    _, conflicts = unify(equations, dict(zip((dim.name for dim in contract.given), given, strict=True)))
    for conflict in conflicts:
        at = conflict.equation
        got = f"{at.got} at dim {at.axis} of {shapes[at.tensor]}"
        violations.append(Violation(graph, at.tensor, conflict.rule, conflict.expected, got))
    return violations


def _own_breaches(spec: TensorSpec, facts: TensorFacts, shaped: bool) -> Iterator[tuple[Rule, str, str]]:
    """(rule, expected, got) of each rule that a tensor breaks by itself."""
    if facts.dtype != spec.dtype:
        yield Rule.DTYPE, spec.dtype, facts.dtype
    if facts.device != spec.device:
        yield Rule.DEVICE, spec.device, facts.device
    if len(facts.shape) != len(spec.shape):
        yield Rule.RANK, f"{len(spec.shape)} dims", f"{len(facts.shape)} with shape {tuple(facts.shape)}"
    elif not shaped:
        yield Rule.LAYOUT, "one stride for each dim", f"shape {tuple(facts.shape)} with strides {facts.strides}"
    else:
        yield from memory_breaches(spec, facts)
