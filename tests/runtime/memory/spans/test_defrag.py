"""Which spans a defragmentation moves, by pictures: a letter is a span, a dot is free, 4 KiB each.

That no byte is lost and no handle goes wrong is in pool_model.py.
"""

from itertools import groupby

import pytest

from runtime.memory.spans.extents import Extents
from runtime.memory.spans.span import Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Segments
from tests.runtime.memory.spans.bench import KIB, Bench, ask, check

CELL = 4 * KIB


class Laid:
    """A pool of extents with one segment a picture."""

    def __init__(self, *pictures: str, high_from: int = 100) -> None:
        self._cells = len(pictures[0])
        self.bench = Bench(len(pictures) * self._cells * 4)
        segments = Segments(self.bench.reserve, "p", self._cells * CELL)
        self.pool = SpanPool(self.bench.env, "p", Extents(segments, high_from * CELL))
        self.name_of: dict[Span, str] = {}
        gaps = []
        for picture in pictures:
            for name, cells in groupby(picture if high_from > 1 else reversed(picture)):
                span = self.pool.alloc(ask(len(list(cells)) * CELL))
                gaps += [span] if name == "." else []
                self.name_of[span] = name
        for span in gaps:
            del self.name_of[span]
            self.pool.free(span, None)
        assert self.pictures() == list(pictures)
        self.moved = ""

    def defrag(self, cells_max: int | None = None, overlap: bool = True) -> list[str]:
        """The pictures after it; `moved` names the spans in order."""
        bytes_max = None if cells_max is None else cells_max * CELL
        self.pool.defrag(self._move, None, bytes_max=bytes_max, overlap=overlap)
        check(self.pool)
        return self.pictures()

    def pictures(self) -> list[str]:
        count = self.pool.usage().total_bytes // (self._cells * CELL)
        cells = [["."] * self._cells for _ in range(count)]
        for span, name in self.name_of.items():
            at, length = span.offset // CELL, span.bytes // CELL
            assert cells[span.segment][at : at + length] == ["."] * length, f"{name} lies on another"
            cells[span.segment][at : at + length] = name * length
        return ["".join(one) for one in cells]

    def _move(self, old: Span, new: Span, size_bytes: int) -> None:
        self.name_of[new] = self.name_of.pop(old)
        self.moved += self.name_of[new]


def test_the_span_beside_the_gap_goes_into_a_hole_and_nothing_else_moves():
    laid = Laid("A.BCDEFGH...")
    assert (laid.defrag(), laid.moved) == (["AHBCDEFG...."], "H")


def test_what_finds_no_hole_slides_away_from_the_gap_each_once():
    laid = Laid("AA.BBCC.DD....")
    assert (laid.defrag(), laid.moved) == (["AABBCCDD......"], "BCD")


def test_what_lies_behind_the_gap_slides_behind_it():
    laid = Laid("......BBB.CC", high_from=1)
    assert (laid.defrag(), laid.moved) == ([".......BBBCC"], "B")


def test_a_slide_by_more_than_its_own_length_loses_no_byte():
    laid = Laid("A.....B...CC")
    laid.defrag()
    assert laid.pool.usage().largest_free_bytes == 8 * CELL


@pytest.mark.parametrize(
    ("cells_max", "picture", "moved"),
    [
        (0, "AA.BBCC.DD....", ""),
        (1, "AA.BBCC.DD....", ""),
        (2, "AA.BBCCDD.....", "D"),
        (5, "AA.BBCCDD.....", "D"),
        (6, "AABBCCDD......", "BCD"),
    ],
)
def test_a_budget_buys_whole_holes_the_cheapest_first(cells_max: int, picture: str, moved: str):
    laid = Laid("AA.BBCC.DD....")
    assert (laid.defrag(cells_max), laid.moved) == ([picture], moved)


def test_a_budget_is_spent_on_the_side_where_it_buys_most():
    laid = Laid("AA.BB...CCCC.DDDD")
    assert (laid.defrag(5), laid.moved) == (["AABB....CCCC.DDDD"], "B")


def test_a_budget_is_spent_where_the_hole_is_largest_already():
    laid = Laid("AAAAA.BBBB..", "CCCC.DDDD...")
    assert (laid.defrag(4), laid.moved) == (["AAAAA.BBBB..", "CCCCDDDD...."], "D")


def test_a_span_that_is_over_the_budget_does_not_stop_a_smaller_one():
    laid = Laid("A.B....CDDDD...")
    assert (laid.defrag(1), laid.moved) == (["ACB.....DDDD..."], "C")


def test_the_emptiest_segment_is_emptied_into_the_fuller_ones():
    laid = Laid("A.......", "BBBBBB..", "CCC.DDD.")
    assert laid.defrag(overlap=False)[0] == "........"
    assert laid.moved == "A"
    assert laid.pool.release_free() == 8 * CELL


def test_without_overlap_nothing_slides():
    laid = Laid("AA.BB....")
    assert (laid.defrag(overlap=False), laid.moved) == (["AA.BB...."], "")


def test_a_large_span_goes_to_the_end_of_the_large():
    laid = Laid("....BBB...CCCC", high_from=1)
    assert laid.defrag(overlap=False) == [".......BBBCCCC"]
