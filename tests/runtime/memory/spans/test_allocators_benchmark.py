from dataclasses import replace

import pytest

from benchmarks import allocators, allocators_kv, allocators_trace
from benchmarks import allocators_traces as traces
from benchmarks.allocators_heaps import KINDS, Ours, Room
from benchmarks.allocators_policies import POLICIES, Holes
from benchmarks.allocators_torch import TorchModel

MIB = 1024 * 1024


@pytest.mark.parametrize("order", traces.ORDERS)
def test_a_trace_keeps_its_load_and_frees_only_what_is_live(order: str):
    live: dict[int, int] = {}
    for wish in traces.wishes(traces.ORDERS[order], 200 * MIB, seed=1, rounds=60):
        if wish.size_bytes:
            live[wish.number] = wish.size_bytes
        else:
            del live[wish.number]
        assert sum(live.values()) <= 200 * MIB
    assert sum(live.values()) > 160 * MIB


def test_any_size_frees_only_what_is_live_and_asks_in_73_of_100_steps():
    live: dict[int, int] = {}
    asked = 0
    for wish in traces.any_size(10**12, seed=1, steps=1000):
        if wish.size_bytes:
            live[wish.number] = wish.size_bytes
            asked += 1
        else:
            del live[wish.number]
    assert 690 < asked < 770
    assert len(set(live.values())) > 0.95 * len(live)


def test_torchs_model_merges_inside_a_segment_only_and_gives_empty_ones_back_when_full():
    heap = TorchModel(40 * MIB)
    kind = KINDS[0]
    for number in range(20):
        assert heap.alloc(number, 2 * MIB, kind)
    assert heap.pieces() == (0, 0, 0)
    for number in range(20):
        heap.free(number)
    assert heap.pieces() == (40 * MIB, 20 * MIB, 40 * MIB)
    assert heap.alloc(20, 32 * MIB, kind)
    assert heap.pieces() == (8 * MIB, 8 * MIB, 8 * MIB)


def test_torchs_model_keeps_small_requests_in_segments_of_their_own():
    heap = TorchModel(40 * MIB)
    assert heap.alloc(1, MIB, KINDS[0])
    assert heap.alloc(2, 1000, KINDS[0])
    assert heap.pieces() == (40 * MIB - MIB - 1024, 38 * MIB, 38 * MIB)
    assert heap.alloc(3, 2 * MIB, KINDS[0])
    assert heap.pieces()[1] == 18 * MIB


def ours(layout: str, rungs: str = "", pools: int = 1, quiet_each: int = 0) -> Ours:
    return Ours(Room(256 * MIB, 2 * MIB), pools, layout, rungs, quiet_each)


def played(heap: Ours, order: str = "random") -> allocators_trace.Played:
    return allocators_trace.play(heap, traces.wishes(traces.ORDERS[order], int(256 * MIB * 0.97), seed=3, rounds=120))


def test_a_small_trace_plays_alike_twice_and_the_ladder_leaves_no_failure():
    assert played(ours("one segment")) == played(ours("one segment"))
    assert played(ours("one segment")).failures > 0
    assert played(ours("one segment", "move")).failures == 0


def test_the_policy_that_is_said_to_be_ours_lays_each_span_where_our_pool_does():
    rate, two_ends = POLICIES["first fit, two ends (ours)"]
    theirs, our_own = Holes(256 * MIB, rate, two_ends), ours("one segment")
    odd = traces.any_size(int(256 * MIB * 0.9), seed=3, steps=600)
    wishes = [replace(one, size_bytes=-(-one.size_bytes // 4096) * 4096) for one in odd]
    assert allocators_trace.play(theirs, iter(wishes)) == allocators_trace.play(our_own, iter(wishes))
    assert theirs.pieces() == our_own.pieces()


def test_fragmentation_falls_with_how_often_spans_are_moved_and_copies_rise():
    heaps = [ours("one segment", quiet_each=each) for each in (0, 20, 1)]
    means = [sum(played(heap).fragmentation) for heap in heaps]
    assert means[0] > means[1] > means[2]
    assert heaps[0].copies == 0 < heaps[1].copies < heaps[2].copies


@pytest.mark.parametrize("layout", ["one segment", "shared"])
def test_what_is_served_at_the_end_is_what_the_figures_say(layout: str):
    for pools in (1, 6):
        heap = ours(layout, "release", pools)
        played(heap)
        free, _, given_back = heap.pieces()
        assert allocators_trace.served_bytes(heap) == given_back - given_back % (2 * MIB) <= free


@pytest.mark.slow  # the figures that DESIGN.md tells
def test_a_kind_that_runs_away_starves_others_unless_it_has_a_limit(capsys: pytest.CaptureFixture[str]):
    assert allocators.main(["--only", "kinds"]) == 0
    one, six, limited = (row.split()[-len(KINDS) :] for row in capsys.readouterr().out.splitlines()[2:5])
    assert KINDS[4] == "io"
    others = [sum(map(int, row)) - int(row[4]) for row in (one, six, limited)]
    assert others == [182, 416, 5]


def test_chunks_leave_less_of_a_page_unused_than_whole_prompts_and_those_less_than_one_piece():
    contiguous, paged, chunked = (
        allocators_kv.unused(name, 7)[0] for name in ("contiguous", "paged", "paged, chunked")
    )
    assert contiguous > paged > chunked > 0
    assert paged < 0.124
    assert chunked < 0.087


def test_the_speed_table_has_a_row_a_way(capsys: pytest.CaptureFixture[str]):
    assert allocators.main(["--only", "speed", "--rounds", "2", "--loops", "100"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("arena", "ring", "size classes", "KV block", "torch.empty 1 MiB"))
