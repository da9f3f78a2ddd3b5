"""What a leap tells of its steps, and asks before it begins."""

from collections.abc import Sequence
from typing import Protocol

from runtime.core.work import Sampled


class News(Protocol):
    """Who is told of the steps of a leap: the engine's sink, by other doors."""

    def rooms(self, requests: Sequence[str], untold: Sequence[str], fresh: Sequence[str]) -> list[int]:
        """For each, how many of its tokens may be told in a row; 0: its news are not so simple now. Those of `untold`
        will first be told of a token that has landed already; for those of `fresh` it will be the first of all."""
        ...

    def leapt(
        self, requests: Sequence[str], stamps: Sequence[int], tokens: list[list[int]], drawn: dict[int, list[Sampled]]
    ) -> None:
        """A token for each of the first stamps; `drawn` by row where log probabilities were asked for."""
        ...
