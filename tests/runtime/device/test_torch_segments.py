"""Real bytes behind the pools: aligned, checked, moved whole, and overwritten when they come back."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis.stateful import invariant, precondition, rule

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.device.torch_segments import SENTINEL, TorchSegments, carved, placed
from runtime.memory.spans.classes import Classes
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.span import ALIGNMENT_MAX, AllocRequest, Lifetime, PoolKind, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Segments
from tests.runtime.fakes import SetClock
from tests.runtime.memory.spans.bench import check
from tests.steps import CountedMachine, machine_settings

KIB = 1024
SIZES = st.one_of(st.integers(1, 3000), st.integers(1, 40 * KIB))


def content(value: int, size: int) -> torch.Tensor:
    """Other bytes for each value, and at each place of it: a slide that copies in the wrong order must show."""
    return ((torch.arange(size) * 7 + value) % 91).to(torch.uint8)  # never the sentinel, 0x5C


class Contents(CountedMachine):
    """Size classes over torch: each live span holds what was written to it, whatever is freed or moved around it."""

    def __init__(self) -> None:
        super().__init__()
        self.segments = TorchSegments(256 * KIB)
        env = Env(SetClock(), 0, DisabledFaults(), Ledger())
        placement = Classes(Extents(Segments(self.segments, "io", 64 * KIB), high_from_bytes=8 * KIB))
        self.pool = SpanPool(env, "io", placement)
        self.pool.on_return.append(self.segments.poison("io"))
        self.values: dict[Span, int] = {}
        self.count = 0

    @rule(size=SIZES)
    def alloc(self, size: int) -> None:
        try:
            span = self.pool.alloc(AllocRequest(size, 64, PoolKind.IO, Lifetime.SESSION, "s"))
        except OutOfMemory:
            return
        self.count += 1
        self.values[span] = self.count
        self.segments.view(span, torch.uint8, (size,)).copy_(content(self.count, size))

    @precondition(lambda self: self.values)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        span = data.draw(st.sampled_from(list(self.values)))
        whole = self.segments.bytes_of(span)
        del self.values[span]
        self.pool.free(span, None)
        assert whole.eq(SENTINEL).all(), "whoever still reads it must get a wrong answer"

    @rule(overlap=st.booleans())
    def defrag(self, overlap: bool) -> None:
        def move(old: Span, new: Span, size_bytes: int) -> None:
            self.segments.move(old, new, size_bytes)
            self.values[new] = self.values.pop(old)

        self.pool.defrag(move, None, overlap=overlap)

    @rule()
    def release(self) -> None:
        self.pool.release_free()

    @invariant()
    def each_span_holds_what_was_written(self) -> None:
        for span, value in self.values.items():
            assert self.segments.bytes_of(span).equal(content(value, span.bytes)), span

    @invariant()
    def room_is_counted(self) -> None:
        assert self.segments.taken_bytes == self.pool.usage().total_bytes <= 256 * KIB
        check(self.pool)


TestContents = Contents.TestCase
TestContents.settings = machine_settings(runs=60, steps=30)


@given(st.lists(st.integers(1, 9000), min_size=1, max_size=8))
def test_a_segment_begins_at_a_multiple_of_4096_and_is_zero(sizes: list[int]):
    segments = TorchSegments()
    for at, size in enumerate(sizes):
        assert segments.reserve("p", at, size)
        whole = segments.bytes_of(Span("p", at, 0, size, 1))
        assert whole.data_ptr() % ALIGNMENT_MAX == 0
        assert len(whole) == size
        assert not whole.any()


def test_views_have_dtype_and_shape_and_share_the_bytes():
    segments = TorchSegments()
    segments.reserve("p", 0, 4096)
    span = Span("p", 0, 256, 96, 1)
    view = segments.view(span, torch.float32, (4, 6))
    view.fill_(1.5)
    assert view.is_contiguous() and view.data_ptr() % 256 == 0
    assert torch.equal(segments.view(span, torch.float32, (24,)), torch.full((24,), 1.5))
    assert not segments.bytes_of(Span("p", 0, 0, 256, 2)).any()
    assert not segments.bytes_of(Span("p", 0, 352, 100, 3)).any()


def test_a_view_that_would_reach_into_the_neighbour_is_refused():
    segments = TorchSegments()
    segments.reserve("p", 0, 4096)
    with pytest.raises(ValueError, match=r"takes 100 B, and .*has 99; ask for more"):
        segments.view(Span("p", 0, 0, 99, 1), torch.float32, (5, 5))


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 300))
def test_a_move_is_a_memmove(old: int, new: int, size: int):
    segments = TorchSegments()
    segments.reserve("p", 0, 600)
    whole = segments.bytes_of(Span("p", 0, 0, 600, 1))
    whole.copy_(torch.arange(600) % 251)
    wanted = whole.clone()
    wanted[new : new + size] = whole[old : old + size].clone()
    segments.move(Span("p", 0, old, size, 2), Span("p", 0, new, size, 3), size)
    assert torch.equal(whole, wanted)


def test_room_is_for_all_pools_together_and_comes_back():
    segments = TorchSegments(10_000)
    assert segments.reserve("a", 0, 6000)
    assert not segments.reserve("b", 0, 6000)
    segments.give_back("a", 0, 6000)
    assert segments.reserve("b", 0, 6000)
    assert (segments.taken_bytes, segments.reserved) == (6000, 2)


def test_torchs_own_refusal_is_no_room(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    segments = TorchSegments()
    monkeypatch.setattr(torch, "empty", refuse)
    assert not segments.reserve("p", 0, 4096)
    assert segments.taken_bytes == segments.reserved == 0


def test_it_knows_which_addresses_are_its_own():
    segments = TorchSegments()
    segments.reserve("p", 0, 100)
    first = segments.bytes_of(Span("p", 0, 0, 100, 1)).data_ptr()
    assert segments.owns(first) and segments.owns(first + 99)
    assert not segments.owns(first + 100) and not segments.owns(first - 1)


def test_tensors_can_be_placed_in_spans_and_carved_out_of_a_segment():
    segments = TorchSegments()
    env = Env(SetClock(), 0, DisabledFaults(), Ledger())
    pool = SpanPool(env, "weight", Extents(Segments(segments, "weight", 4096)))
    make = placed(segments, pool, PoolKind.WEIGHT)
    first, second = make((3, 5), torch.float32), make((7,), torch.float16)
    assert (first.shape, second.dtype) == ((3, 5), torch.float16)
    assert segments.owns(first.data_ptr()) and segments.owns(second.data_ptr())
    assert [(span.bytes, request.lifetime) for span, request in pool.live()] == [
        (60, Lifetime.GLOBAL),
        (14, Lifetime.GLOBAL),
    ]
    cut = carved(segments, "kv", 8192)
    pair = cut((2, 16), torch.float32), cut((2, 16), torch.float32)
    assert [each.data_ptr() % ALIGNMENT_MAX for each in pair] == [0, 0]
    pair[0].fill_(1)
    assert not pair[1].any()
    with pytest.raises(ValueError, match="ask for more"):
        cut((1,), torch.float32)


def test_a_carving_that_finds_no_room_says_what_to_do():
    with pytest.raises(ValueError, match="no room for 8192 B of kv; give fewer blocks"):
        carved(TorchSegments(4096), "kv", 8192)
