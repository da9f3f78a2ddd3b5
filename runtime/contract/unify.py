"""Infers one value for each symbolic dim from all shapes that name it, and finds every shape that disagrees.

    token_ids [n]      7   ->  n = 7, by token_ids[0]
    gate_up   [2*n]   15   ->  conflict: expected 2*n = 14 (n = 7 by token_ids[0]), got 15

Plain dims are solved first, so that a conflict names the tensor with the formula and not the correct tensor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.contract.dims import Dim, Extent
from runtime.contract.violation import Rule


@dataclass(frozen=True, slots=True)
class Equation:
    """The `extent` of a contract has the value `got` in a real shape, at `axis` of `tensor`."""

    tensor: str
    axis: int
    extent: Extent
    got: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """An equation that contradicts earlier ones (EXTENT), or whose dim is out of range (RANGE)."""

    equation: Equation
    rule: Rule
    expected: str


@dataclass(frozen=True, slots=True)
class Unified:
    """The values of the dims, and all conflicts. A dim that no equation determines has no value."""

    values: Mapping[str, int]
    conflicts: tuple[Conflict, ...]


def unify(equations: Iterable[Equation], given: Mapping[str, int] | None = None) -> Unified:
    """Solves each equation with one unknown dim, checks those with none, and defers those with several.

    `given` are values of dims that an earlier graph of the step has determined.
    """
    values = dict(given or {})
    sources = dict.fromkeys(values, "the step")
    conflicts: list[Conflict] = []
    waiting = sorted(equations, key=lambda equation: not equation.extent.plain)
    progress = True
    while waiting and progress:
        progress = False
        later: list[Equation] = []
        for equation in waiting:
            unknown = equation.extent.unknown(values)
            if not unknown:
                conflicts += _checked(equation, values, sources)
            elif len(unknown) == 1 and equation.extent.gives(unknown[0]):
                conflicts += _solved(equation, unknown[0], values, sources)
            else:
                later.append(equation)
                continue
            progress = True
        waiting = later
    return Unified(values, tuple(conflicts))


def _checked(equation: Equation, values: Mapping[str, int], sources: Mapping[str, str]) -> list[Conflict]:
    value = equation.extent.value(values)
    if value == equation.got:
        return []
    text = f"{equation.extent} = {value}" if equation.extent.dims else str(value)
    if equation.extent.plain:
        text += f" (by {sources[str(equation.extent)]})"
    elif equation.extent.dims:
        text += f" ({', '.join(f'{dim} = {values[dim.name]} by {sources[dim.name]}' for dim in equation.extent.dims)})"
    return [Conflict(equation, Rule.EXTENT, text)]


def _solved(equation: Equation, dim: Dim, values: dict[str, int], sources: dict[str, str]) -> list[Conflict]:
    value = equation.extent.solved(dim, equation.got, values)
    if value is None:
        return [Conflict(equation, Rule.EXTENT, f"{equation.extent} with a whole {dim.name}")]
    values[dim.name] = value
    sources[dim.name] = f"{equation.tensor}[{equation.axis}]"
    if dim.admits(value):
        return []
    return [Conflict(equation, Rule.RANGE, dim.rule if equation.extent.plain else f"{equation.extent} with {dim.rule}")]
