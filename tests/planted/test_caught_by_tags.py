"""A block with two users is caught by its tags on the first launch after, whenever it happens; not by luck.

first   [a0 b1 c2 ...]   a0 is freed as a duplicate, first still reads it
second  [a0 d3]          takes a0: a new generation; the next launch that reads a0 for first sees it
"""

import pytest

from runtime.scheduling import scheduler
from tests.planted.site.sitecustomize import bug_of
from tests.runtime.fakes import Bench, expected_tokens

PROMPT = range(8)
TOKENS = 24


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """An engine on fakes in which every long request is a victim."""
    for name in ("_ensure_blocks", "remove"):
        monkeypatch.setattr(scheduler.Scheduler, name, getattr(scheduler.Scheduler, name))
    bug_of("given_twice").plant(scheduler, every=1)
    return Bench(blocks=32)


def share_a_block(bench: Bench, turns: int) -> tuple[str, int]:
    """A request that still reads a block which is free and on top of the pool, `turns` steps into its decode."""
    first = bench.submit(PROMPT, max_tokens=TOKENS)
    for _ in range(2):
        bench.turn()
    (shared,) = set(bench.engine.requests[first].blocks) - set(bench.env.ledger.held("kv", first))
    bench.pool._free.remove(shared)
    bench.env.ledger.acquire("kv", "aside", [shared])  # kept back for a while, and the books stay in order
    for _ in range(turns):
        bench.turn()
    bench.env.ledger.release("kv", "aside", [shared])
    bench.pool._free.append(shared)  # last in, first out: who asks next gets it
    assert bench.env.counters.total["kv.tag_breach"] == 0, "nothing to see before the block has two users"
    return first, shared


def refused(bench: Bench, first: str) -> None:
    """The launch in flight lands, and `first` is refused before its token is taken."""
    bench.device.complete()
    bench.engine.step()
    assert bench.env.counters.total["kv.tag_breach"] == 1
    assert bench.sink.ended[first].end.code == "kv_corruption"
    assert bench.sink.tokens[first] == expected_tokens(PROMPT, len(bench.sink.tokens[first])), "no wrong token got out"
    (told,) = [event.detail for event in bench.env.events.take() if event.kind == "invariant"]
    assert told.startswith(f"{first}: block ") and "(index 0), generation" in told


@pytest.mark.parametrize("turns", [0, 1, 2, 4, 5, 6])
def test_the_first_launch_after_refuses_the_request_whose_block_was_given_away(bench: Bench, turns: int) -> None:
    first, shared = share_a_block(bench, turns)
    second = bench.submit(range(100, 103), max_tokens=1)
    bench.engine.step()
    assert bench.engine.requests[second].blocks == [shared]
    refused(bench, first)
    assert bench.sink.tokens[second] == expected_tokens(range(100, 103), 1)


@pytest.mark.parametrize("turns", [3, 7])
def test_a_request_that_takes_its_own_block_a_second_time_is_refused_as_well(bench: Bench, turns: int) -> None:
    first, shared = share_a_block(bench, turns)
    bench.engine.step()
    assert bench.engine.requests[first].blocks.count(shared) == 2
    refused(bench, first)


def test_without_tags_the_same_bug_is_a_wrong_answer_with_200(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.pool.plane, "compare", lambda tables, reads: ())
    first, _ = share_a_block(bench, 0)
    bench.submit(range(100, 103), max_tokens=1)
    bench.run()
    assert bench.sink.ended[first].end.outcome == "ok"
    assert bench.sink.tokens[first] != expected_tokens(PROMPT, TOKENS)
