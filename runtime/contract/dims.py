"""Symbolic dims and their products with integer factors, such as `n`, `2 * n` and `n * w`.

    n = Dim("n", min=1, max=512)
    TensorSpec("gate_up", (n, 2 * hidden), "float32")       shape entries are int, Dim or Extent

There is no division: an even extent is written as `2 * half`, and 15 is refused because it has no `half`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Union

Size = Union[int, "Dim", "Extent"]


class _Factor:
    """The product of Dim and Extent."""

    def __mul__(self, other: Size) -> "Extent":
        left, right = extent(self), extent(other)
        dims = sorted((*left.dims, *right.dims), key=lambda dim: dim.name)
        return Extent(left.factor * right.factor, tuple(dims))

    __rmul__ = __mul__


@dataclass(frozen=True)
class Dim(_Factor):
    """A named extent with one value in each check: from `min` to `max` (None: no limit), a multiple of
    `multiple_of`."""

    name: str
    min: int = 0
    max: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        problems = []
        if not self.name.isidentifier():
            problems.append("a name is one word of letters, digits and _")
        if self.min < 0:
            problems.append(f"min is {self.min}; give 0 or more")
        if self.max is not None and self.max < self.min:
            problems.append(f"max {self.max} is below min {self.min}")
        if self.multiple_of < 1:
            problems.append(f"multiple_of is {self.multiple_of}; give 1 or more")
        if problems:
            raise ValueError(f'dim "{self.name}": {"; ".join(problems)}')

    def admits(self, value: int) -> bool:
        """True when this dim may have the value `value`."""
        return value >= self.min and (self.max is None or value <= self.max) and value % self.multiple_of == 0

    @property
    def rule(self) -> str:
        """The allowed values as text, such as "n in 1..512, a multiple of 8"."""
        above = f"{self.min}.." if self.max is None else f"{self.min}..{self.max}"
        steps = f", a multiple of {self.multiple_of}" if self.multiple_of > 1 else ""
        return f"{self.name} in {above}{steps}"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Extent(_Factor):
    """A number times some dims. Equal products compare equal, so `n * w == w * n`. Products and `extent` make it."""

    factor: int
    dims: tuple[Dim, ...] = ()
    """The dims in order of name; a dim that is squared stands here twice."""

    def __post_init__(self) -> None:
        assert self.factor or not self.dims, "0 times a dim is 0 and determines nothing; give a factor"

    @property
    def plain(self) -> bool:
        """True when the extent is exactly one dim."""
        return self.factor == 1 and len(self.dims) == 1

    def value(self, values: Mapping[str, int]) -> int:
        """The number that this extent is for the given dims. Raises KeyError when a dim has no value."""
        return self.factor * prod(values[dim.name] for dim in self.dims)

    def __str__(self) -> str:
        names = [dim.name for dim in self.dims]
        return "*".join(names if names and self.factor == 1 else [str(self.factor), *names])


def extent(size: "Size | _Factor") -> Extent:
    """Converts a shape entry to an Extent."""
    if isinstance(size, Extent):
        return size
    if isinstance(size, Dim):
        return Extent(1, (size,))
    assert isinstance(size, int), f"{size!r} is no extent; give an int, a Dim, or a product of them"
    return Extent(size)
