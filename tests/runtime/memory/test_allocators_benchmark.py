import pytest

from benchmarks import allocators, allocators_kv
from benchmarks import allocators_trace as traces

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


def test_torchs_model_merges_inside_a_segment_only_and_gives_empty_ones_back_when_full():
    heap = traces.TorchModel(40 * MIB)
    kind = traces.KINDS[0]
    for number in range(20):
        assert heap.alloc(number, 2 * MIB, kind)
    assert heap.pieces() == (0, 0)
    for number in range(20):
        heap.free(number)
    assert heap.pieces() == (40 * MIB, 20 * MIB)
    assert heap.alloc(20, 32 * MIB, kind)
    assert heap.pieces() == (8 * MIB, 8 * MIB)


def test_a_small_trace_plays_alike_twice_and_the_ladder_leaves_no_failure():
    def played(repair: bool) -> traces.Played:
        choose = traces.ORDERS["random"]
        trace = traces.wishes(choose, int(256 * MIB * 0.97), seed=3, rounds=120)
        return traces.play(traces.Ours(256 * MIB, 1, repair=repair), trace)

    assert played(repair=False) == played(repair=False)
    assert played(repair=False).failures > 0
    assert played(repair=True).failures == 0


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
    assert all(name in printed for name in ("arena", "ring", "size classes", "KV page", "torch.empty 1 MiB"))
