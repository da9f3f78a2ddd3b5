"""Infer: one value for each symbolic dim, from all the shapes that name it, and every shape that disagrees.

    token_ids [n]      7   ->  n = 7, by token_ids[0]
    gate_up   [2*n]   15   ->  conflict: expected 2*n = 14 (n = 7 by token_ids[0]), got 15

Plain dims speak first, so that a conflict is laid at the door of the formula and not of the tensor that is right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.contract.dims import Dim, Extent
from runtime.contract.violation import Rule


@dataclass(frozen=True, slots=True)
class Equation:
    """`extent` of the contract has the value `got` in a real shape, at `axis` of `tensor`."""

    tensor: str
    axis: int
    extent: Extent
    got: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """An equation that can't hold beside those before it (EXTENT), or whose dim breaks its own rule (RANGE)."""

    equation: Equation
    rule: Rule
    expected: str


@dataclass(frozen=True, slots=True)
class Unified:
    """Values of the dims, and what contradicts them. Dims that no equation gave have no value."""

    values: Mapping[str, int]
    conflicts: tuple[Conflict, ...]


def unify(equations: Iterable[Equation], given: Mapping[str, int] | None = None) -> Unified:
    """Solve each equation for its one unknown, check it when it has none, wait for others when it has several.

    `given` are values that are settled already, by an earlier graph of the step.
    """
    values = dict(given or {})
    witnesses = dict.fromkeys(values, "the step")
    conflicts: list[Conflict] = []
    waiting = sorted(equations, key=lambda equation: not equation.extent.plain)
    progress = True
    while waiting and progress:
        progress = False
        later: list[Equation] = []
        for equation in waiting:
            unknown = equation.extent.unknown(values)
            if not unknown:
                conflicts += _checked(equation, values, witnesses)
            elif len(unknown) == 1 and equation.extent.gives(unknown[0]):
                conflicts += _solved(equation, unknown[0], values, witnesses)
            else:
                later.append(equation)
                continue
            progress = True
        waiting = later
    return Unified(values, tuple(conflicts))


def _checked(equation: Equation, values: Mapping[str, int], witnesses: Mapping[str, str]) -> list[Conflict]:
    value = equation.extent.value(values)
    if value == equation.got:
        return []
    text = f"{equation.extent} = {value}" if equation.extent.dims else str(value)
    if equation.extent.plain:
        text += f" (by {witnesses[str(equation.extent)]})"
    elif equation.extent.dims:
        text += (
            f" ({', '.join(f'{dim} = {values[dim.name]} by {witnesses[dim.name]}' for dim in equation.extent.dims)})"
        )
    return [Conflict(equation, Rule.EXTENT, text)]


def _solved(equation: Equation, dim: Dim, values: dict[str, int], witnesses: dict[str, str]) -> list[Conflict]:
    value = equation.extent.solved(dim, equation.got, values)
    if value is None:
        return [Conflict(equation, Rule.EXTENT, f"{equation.extent} with a whole {dim.name}")]
    values[dim.name] = value
    witnesses[dim.name] = f"{equation.tensor}[{equation.axis}]"
    if dim.admits(value):
        return []
    return [Conflict(equation, Rule.RANGE, dim.rule if equation.extent.plain else f"{equation.extent} with {dim.rule}")]
