"""A bug of the field: which thread tells of it, how it is modelled in our runtime, and what a right verdict names."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]
BUGS: list["Bug"] = []


@dataclass(frozen=True)
class Bug:
    """`names` is a text in the verdict that names the owner or the mechanism. `likely` is the first scenario to try."""

    id: str
    layer: str
    what: str
    likely: str
    names: str
    plant: Plant


def bug(id: str, layer: str, what: str, likely: str, names: str) -> Callable[[Plant], Plant]:
    """Register the function that plants it."""

    def register(plant: Plant) -> Plant:
        BUGS.append(Bug(id, layer, what, likely, names, plant))
        return plant

    return register


class Every:
    """True at every n-th call, from the n-th on."""

    def __init__(self, n: int) -> None:
        self._n, self._calls = n, 0

    def __call__(self) -> bool:
        self._calls += 1
        return self._calls % self._n == 0
