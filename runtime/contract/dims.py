"""Symbolic dims and their arithmetic: sums of products with integer factors, such as `n`, `2 * n`, `n + 1`, `n * w`.

    n = Dim("n", min=1, max=512)
    TensorSpec("gate_up", (n, 2 * hidden), "float32")       shape entries are int, Dim or Extent

There is no division: an even extent is written as `2 * half`, and 15 is refused because it has no `half`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Union

Product = tuple["Dim", ...]
"""Dims that are multiplied, in order of name; the empty product is the number 1."""
Size = Union[int, "Dim", "Extent"]


class _Arithmetic:
    """The operators of Dim and Extent."""

    def __add__(self, other: Size) -> "Extent":
        return _sum((*extent(self).terms, *extent(other).terms))

    def __sub__(self, other: Size) -> "Extent":
        return self + extent(other) * -1

    def __rsub__(self, other: Size) -> "Extent":
        return extent(other) - self

    def __mul__(self, other: Size) -> "Extent":
        return _sum(
            (_product(left + right), factor * by)
            for left, factor in extent(self).terms
            for right, by in extent(other).terms
        )

    __radd__ = __add__
    __rmul__ = __mul__


@dataclass(frozen=True)
class Dim(_Arithmetic):
    """A named extent with one value in each bind: from `min` to `max` (None: no limit), a multiple of `multiple_of`."""

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
class Extent(_Arithmetic):
    """A sum of products of dims. Equal sums compare equal, so `n + n == 2 * n`. Arithmetic and `extent` make it."""

    terms: tuple[tuple[Product, int], ...]
    """(product, factor) of each term, in order of names. No factor is 0."""

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of all terms, each once."""
        return tuple({dim: None for product, _ in self.terms for dim in product})

    @cached_property
    def plain(self) -> bool:
        """True when the extent is exactly one dim."""
        return len(self.terms) == 1 and len(self.terms[0][0]) == 1 and self.terms[0][1] == 1

    def value(self, values: Mapping[str, int]) -> int:
        """The number that this extent is for the given dims. Raises KeyError when a dim has no value."""
        return sum(factor * prod(values[dim.name] for dim in product) for product, factor in self.terms)

    def unknown(self, known: Mapping[str, object]) -> list[Dim]:
        """The dims of this extent that are not in `known`."""
        return [dim for dim in self.dims if dim.name not in known]

    def gives(self, dim: Dim) -> bool:
        """True when this extent can be solved for `dim` once the other dims are known: `dim` appears in one term only,
        alone or times a constant."""
        return [product for product, _ in self.terms if dim in product] == [(dim,)]

    def solved(self, dim: Dim, total: int, values: Mapping[str, int]) -> int | None:
        """The value of `dim` for which this extent is `total`, or None when it is no integer. Needs `gives(dim)`."""
        rest = self.value({**values, dim.name: 0})
        value, left = divmod(total - rest, dict(self.terms)[(dim,)])
        return None if left else value

    def __str__(self) -> str:
        return " + ".join(_term(product, factor) for product, factor in self.terms).replace("+ -", "- ") or "0"


def extent(size: "Size | _Arithmetic") -> Extent:
    """Converts a shape entry to an Extent."""
    if isinstance(size, Extent):
        return size
    if isinstance(size, Dim):
        return Extent((((size,), 1),))
    assert isinstance(size, int), f"{size!r} is no extent; give an int, a Dim, or a sum of products of them"
    return _sum([((), size)])


def _sum(terms: Iterable[tuple[Product, int]]) -> Extent:
    factors: Counter[Product] = Counter()
    for product, factor in terms:
        factors[product] += factor
    left = [(product, factor) for product, factor in factors.items() if factor]
    return Extent(tuple(sorted(left, key=lambda term: (len(term[0]) == 0, [dim.name for dim in term[0]]))))


def _product(dims: Product) -> Product:
    return tuple(sorted(dims, key=lambda dim: dim.name))


def _term(product: Product, factor: int) -> str:
    names = "*".join(dim.name for dim in product)
    if not names:
        return str(factor)
    return names if factor == 1 else f"-{names}" if factor == -1 else f"{factor}*{names}"
