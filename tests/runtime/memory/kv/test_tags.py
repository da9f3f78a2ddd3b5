import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from runtime.core.work import Claims, Work, padded_tables
from runtime.memory.kv.sequence_tags import flush_hashes
from runtime.memory.kv.tags import SequenceTable, SequenceTags, TagPlane

SIZE = 4
prompts = st.lists(st.integers(0, 1000), min_size=1, max_size=30)


def work(tokens: list[int], start: int, table: list[int], prefix_hash: int, request: str = "a") -> Work:
    """One row: `tokens` from position `start` on, through `table`."""
    positions = np.arange(start, start + len(tokens))
    slots = np.asarray(table)[positions // SIZE] * SIZE + positions % SIZE
    return Work(
        step=0,
        model_key="",
        request_ids=(request,),
        token_ids=np.asarray(tokens, np.int64),
        positions=positions,
        slots=slots,
        row_starts=np.asarray([0, len(tokens)]),
        context_lens=np.asarray([start + len(tokens)]),
        block_tables=padded_tables([table]),
        sampling=(None,),
        prefix_hashes=np.array([prefix_hash], np.uint64),
    )


def written(tokens: list[int], table: list[int]) -> tuple[TagPlane, SequenceTags, list[int]]:
    plane, line = TagPlane(64, SIZE), SequenceTags(SequenceTable(SIZE))
    generations = plane.hand_out(table)
    plane.stamp(work(tokens, 0, table, 0))
    line.extend(tokens)
    return plane, line, generations


def look(plane: TagPlane, line: SequenceTags, table: list[int], generations: list[int]) -> list[tuple[int, str]]:
    sums = np.zeros((1, len(table)), np.uint64)
    sums[0, : len(line.sums)] = line.sums
    claims = Claims(["a"], np.array([generations], np.int64), sums, [line.tokens], [False])
    return [(breach.index, breach.what) for breach in plane.compare(padded_tables([table]), claims)]


@given(prompts, st.lists(st.integers(1, 5)))
def test_any_chunking_gives_the_same_line(tokens, cuts):
    whole, parts = SequenceTags(SequenceTable(SIZE)), SequenceTags(SequenceTable(SIZE))
    whole.extend(tokens)
    at = 0
    for cut in [*cuts, len(tokens)]:
        if tokens[at : at + cut]:
            parts.extend(tokens[at : at + cut])
        at += cut
    assert (whole.prefix_hash, whole.sums, whole.tokens) == (parts.prefix_hash, parts.sums, parts.tokens)


@given(prompts, st.randoms(use_true_random=False))
def test_healthy_kv_never_breaches_however_blocks_are_placed(tokens, rng):
    table = rng.sample(range(60), -(-len(tokens) // SIZE))
    plane, line, generations = written(tokens, table)
    assert look(plane, line, table, generations) == []


@given(prompts, st.data())
def test_one_wrong_token_shows_in_its_block_and_all_after_it(tokens, data):
    at = data.draw(st.integers(0, len(tokens) - 1))
    wrong = [*tokens[:at], tokens[at] + 1, *tokens[at + 1 :]]
    table = list(range(-(-len(tokens) // SIZE)))
    plane, _, generations = written(wrong, table)
    line = SequenceTags(SequenceTable(SIZE))
    line.extend(tokens)
    assert [index for index, _ in look(plane, line, table, generations)] == list(range(at // SIZE, len(table)))


def test_two_of_its_own_blocks_swapped_are_seen():
    plane, line, generations = written(list(range(12)), [5, 6, 7])
    swapped = [generations[1], generations[0], generations[2]]
    assert look(plane, line, [6, 5, 7], swapped) == [(0, "content"), (1, "content")]


def test_position_off_by_one_is_seen():
    plane, line, generations = written([1, 2, 3, 4], [0])
    late = work([9], 5, [0, 1], line.prefix_hash)
    plane.hand_out([1])
    plane.stamp(late)
    line.extend([9])
    assert look(plane, line, [0, 1], [*generations, 1]) == [(1, "content")]


def test_block_given_to_another_is_seen_at_once():
    plane, line, generations = written(list(range(8)), [2, 3])
    plane.hand_out([3])
    assert look(plane, line, [2, 3], generations) == [(1, "generation")]


def test_unwritten_block_is_seen():
    plane, line, generations = written([1, 2, 3, 4], [0])
    line.extend([5])
    assert look(plane, line, [0, 1], [*generations, 0]) == [(1, "content")]


def test_stamping_twice_is_stamping_once():
    plane, line, generations = written(list(range(6)), [0, 1])
    plane.stamp(work(list(range(6)), 0, [0, 1], 0))
    assert look(plane, line, [0, 1], generations) == []


def test_tags_of_a_failed_launch_behind_the_claim_are_not_held_against_its_request():
    plane, line, generations = written([1, 2], [0])
    plane.stamp(work([9, 9], 2, [0], line.prefix_hash))
    assert look(plane, line, [0], generations) == []


def test_writes_to_the_dummy_block_leave_no_tag():
    plane = TagPlane(2, SIZE)
    plane.stamp(work([1, 2], 0, [2], 0))
    line = SequenceTags(SequenceTable(SIZE))
    assert look(plane, line, [], []) == []


@given(st.lists(st.tuples(prompts, prompts), min_size=1, max_size=4))
def test_lines_reckoned_together_are_lines_reckoned_alone(rows):
    table = SequenceTable(SIZE)
    together, alone = [SequenceTags(table) for _ in rows], [SequenceTags(SequenceTable(SIZE)) for _ in rows]
    for turn in (0, 1):
        for line, other, tokens in zip(together, alone, rows, strict=True):
            line.extend(tokens[turn])
            other.extend(tokens[turn])
            flush_hashes([other])
        flush_hashes(together)
    assert [(line.prefix_hash, line.sums) for line in together] == [(line.prefix_hash, line.sums) for line in alone]


def test_a_table_that_is_changed_in_place_is_not_taken_from_memory():
    table, blocks, generations = SequenceTable(SIZE), [3, 4, 5], [1, 1, 1]
    line = SequenceTags(table)

    def held() -> list[list[int]]:
        row = line.hold(blocks, generations)
        return [[*each[row]] for each in (table.blocks[:, : len(blocks) + 1], table.generations[:, : len(blocks) + 1])]

    assert held() == [[3, 4, 5, -1], [1, 1, 1, 0]]
    blocks.append(6)
    generations.append(2)
    assert held() == [[3, 4, 5, 6, -1], [1, 1, 1, 2, 0]]
    blocks[0] = 9
    generations[1] = 7
    assert held() == [[9, 4, 5, 6, -1], [1, 7, 1, 2, 0]]
    del blocks[1:], generations[1:]
    assert held() == [[9, -1], [1, 0]]


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 40)), max_size=60))
def test_rows_are_empty_when_taken_and_none_is_lost(steps):
    table = SequenceTable(SIZE)
    lines = [SequenceTags(table) for _ in range(12)]
    tokens: list[list[int]] = [[] for _ in lines]
    for at, count in steps:
        if count:
            tokens[at] += range(count)
            lines[at].extend(list(range(count)))
            blocks = list(range(-(-len(tokens[at]) // SIZE)))
            lines[at].hold(blocks, [1 for _ in blocks])
        else:
            lines[at].clear()
            tokens[at] = []
    for line, mine in zip(lines, tokens, strict=True):
        fresh = SequenceTags(SequenceTable(SIZE))
        fresh.extend(mine)
        assert (line.tokens, line.prefix_hash, line.sums) == (len(mine), fresh.prefix_hash, fresh.sums)
        line.clear()
    assert table.used == 0
    assert not table.sums.any() and not table.generations.any() and not table.prefix_hashes.any()
    assert (table.blocks == -1).all()


def test_one_block_handed_out_is_wiped_as_many_are():
    plane = TagPlane(4, SIZE)
    plane.hand_out([0, 1])
    plane.stamp(work([1, 2, 3, 4, 5], 0, [0, 1], 0))
    assert plane.hand_out([1]) == [2]
    assert plane.rows[1].tolist() == [0] * SIZE
    assert plane._sums[1] == 0


def test_a_first_token_of_id_0_is_not_what_an_unwritten_slot_holds() -> None:
    plane, line = TagPlane(2, 4), SequenceTags(SequenceTable(4))
    line.extend([0])
    assert look(plane, line, [1], plane.hand_out([1])) == [(0, "content")]
