"""Infers one value for each symbolic dim from all shapes that name it, and finds every shape that disagrees.

    token_ids [n]      7   ->  n = 7, by token_ids[0]
    gate_up   [2*n]   15   ->  conflict: expected 2*n = 14 (n = 7 by token_ids[0]), got 15

Plain dims are solved first, so that a conflict names the tensor with the formula and not the correct tensor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.contract.dims import Extent
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


def unify(equations: Iterable[Equation], given: Mapping[str, int]) -> tuple[dict[str, int], list[Conflict]]:
    """The values of the dims, and all conflicts. A dim that no equation determines has no value.

    A dim is determined where it stands alone or times a number; a product of dims is only checked. `given` are values
    of dims that an earlier graph of the step has determined.
    """
    values = dict(given)
    sources = dict.fromkeys(values, "the step")
    conflicts: list[Conflict] = []
    for equation in sorted(equations, key=lambda one: (len(one.extent.dims) > 1, not one.extent.plain)):
        dims = equation.extent.dims
        if all(dim.name in values for dim in dims):
            conflicts += _checked(equation, values, sources)
        elif len(dims) == 1:
            conflicts += _solved(equation, values, sources)
    return values, conflicts


def _checked(equation: Equation, values: Mapping[str, int], sources: Mapping[str, str]) -> list[Conflict]:
    extent = equation.extent
    value = extent.value(values)
    if value == equation.got:
        return []
    text = f"{extent} = {value}" if extent.dims else str(value)
    if extent.plain:
        text += f" (by {sources[str(extent)]})"
    elif extent.dims:
        names = dict.fromkeys(dim.name for dim in extent.dims)
        text += f" ({', '.join(f'{name} = {values[name]} by {sources[name]}' for name in names)})"
    return [Conflict(equation, Rule.EXTENT, text)]


def _solved(equation: Equation, values: dict[str, int], sources: dict[str, str]) -> list[Conflict]:
    extent = equation.extent
    (dim,) = extent.dims
    value, rest = divmod(equation.got, extent.factor)
    if rest:
        return [Conflict(equation, Rule.EXTENT, f"{extent} with a whole {dim.name}")]
    values[dim.name] = value
    sources[dim.name] = f"{equation.tensor}[{equation.axis}]"
    if dim.admits(value):
        return []
    return [Conflict(equation, Rule.RANGE, dim.rule if extent.plain else f"{extent} with {dim.rule}")]
