from collections.abc import Sequence
from itertools import chain
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from runtime.memory.kv import prefix
from runtime.memory.kv.prefix import BlockHashes, BlockKey, PrefixIndex, salt_of
from tests.runtime.memory.spans.bench import check_index

SIZE, BLOCKS = 4, 20
SALT = salt_of("", "", "v1")
TOKENS = [0, 1, 255, 256, 70000]
tokens = st.builds(  # most of them begin with small ones, and two runs and a half end anywhere
    lambda small, large: small + large[: 20 * SIZE - len(small)],
    st.lists(st.sampled_from(TOKENS[:3]), max_size=20 * SIZE),
    st.lists(st.sampled_from(TOKENS), min_size=20 * SIZE, max_size=20 * SIZE),
)


def keys(tokens: Sequence[int], salt: bytes = SALT) -> list[BlockKey]:
    return BlockHashes(SIZE, salt).keys_for(tokens, len(tokens) // SIZE)


def index_of(*blocks: tuple[int, BlockKey]) -> PrefixIndex:
    index = PrefixIndex(BLOCKS)
    for block, key in blocks:
        assert index.add([block], [key], [block * 10]) == 1
        index.make_evictable([block])
    return index


def test_the_longest_beginning_is_found_and_nothing_behind_a_gap():
    a, b, c = keys(range(12))
    assert index_of((5, a), (6, b), (7, c)).find([a, b, c]) == [5, 6, 7]
    assert index_of((5, a), (7, c)).find([a, b, c]) == [5]
    assert index_of((6, b), (7, c)).find([a, b, c]) == []


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40))
def test_a_block_is_found_exactly_when_all_tokens_up_to_its_end_are_the_same(known, asked):
    index = index_of(*enumerate(keys(known)))
    same = 0
    while same < len(known) // SIZE and known[: (same + 1) * SIZE] == asked[: (same + 1) * SIZE]:
        same += 1
    assert index.find(keys(asked)) == list(range(min(same, len(asked) // SIZE)))


@given(st.lists(st.integers(0, 9), min_size=20, max_size=40), st.lists(st.integers(1, 10), max_size=6))
def test_keys_made_bit_by_bit_are_those_made_at_once(tokens, cuts):
    line = BlockHashes(SIZE, SALT)
    for blocks in sorted(cut % (len(tokens) // SIZE + 1) for cut in cuts):
        assert line.keys_for(tokens, blocks) == keys(tokens[: blocks * SIZE])
    assert line.keys_for(tokens, len(tokens) // SIZE) == keys(tokens)
    assert line.keys_for(tokens, 2) == keys(tokens[: 2 * SIZE])


def test_equal_tokens_of_another_group_model_or_version_are_not_found():
    salts = {
        salt_of(*each) for each in [("", "", "v1"), ("b", "", "v1"), ("", "m", "v1"), ("", "", "v2"), ("bm", "", "")]
    }
    assert len(salts) == 5
    index = index_of((1, keys(range(4))[0]))
    assert [index.find(keys(range(4), salt)) for salt in sorted(salts - {SALT})] == [[]] * 4


@given(tokens, st.integers(0, 79), st.data())
def test_one_other_token_makes_another_key_of_its_block_and_of_all_behind_it(tokens, at, data):
    other = tokens.copy()
    other[at] = data.draw(st.sampled_from(TOKENS).filter(lambda token: token != tokens[at]))
    ours, theirs, same = keys(tokens), keys(other), at // SIZE
    assert len(set(ours)) == len(ours) == 20
    assert ours[:same] == theirs[:same]
    assert not set(ours[same:]) & set(theirs)


@given(st.lists(st.integers(0, 255), min_size=8 * SIZE, max_size=8 * SIZE), st.integers(0, 31))
def test_tokens_of_one_run_tell_keys_apart_whatever_their_digests_do(tokens, at):
    other = [token ^ (place == at) for place, token in enumerate(tokens)]
    with mock.patch.object(prefix, "_digest", return_value=bytes(16)):
        assert keys(tokens)[: at // SIZE] == keys(other)[: at // SIZE]
        assert not set(keys(tokens)[at // SIZE :]) & set(keys(other))


def test_of_two_blocks_that_hold_the_same_the_first_stays_and_the_second_is_simply_free():
    a = keys(range(4))[0]
    index = index_of((1, a))
    assert index.add([2], [a], [0]) == 0
    assert index.make_evictable([2]) == [2]
    assert (index.find([a]), len(index)) == ([1], 1)


def test_who_was_used_longest_ago_is_evicted_and_never_one_that_is_held():
    a, b, c = (keys([n] * 4)[0] for n in range(3))
    index = index_of((1, a), (2, b), (3, c))
    assert index.hold(2) == 20
    index.hold(1)
    index.make_evictable([1])
    assert index.evictable == 2
    assert index.evict(2) == [3, 1]
    assert [index.find([key]) for key in (a, b, c)] == [[], [2], []]
    check_index(index)


def test_a_block_that_is_forgotten_is_out_of_both_maps_and_of_the_line():
    a, b = (keys([n] * 4)[0] for n in range(2))
    index = index_of((1, a), (2, b))
    index.hold(2)
    assert index.forget([1, 2, 7]) == [1], "only the idle one is room"
    assert (len(index), index.evictable, index.find([a]), index.find([b])) == (0, 0, [], [])
    assert index.none_published([1, 2, 7])
    check_index(index)


def test_what_is_published_must_not_be_written():
    index = index_of((1, keys(range(4))[0]))
    assert index.none_published([2, 3])
    assert not index.none_published([2, 1])


def test_a_block_is_not_added_a_second_time_under_another_name():
    a, b = keys(range(8))
    with pytest.raises(AssertionError, match="block 1 is in the index already"):
        index_of((1, a)).add([1], [b], [0])


@given(tokens, st.lists(st.integers(1, 20), max_size=6))
def test_keys_do_not_depend_on_how_many_are_made_at_once_whatever_the_size_of_tokens(tokens, stops):
    whole, parts = keys(tokens), BlockHashes(SIZE, SALT)
    for blocks in [*sorted(stops), 20]:
        assert parts.keys_for(tokens, blocks) == whole[:blocks]


SMALL, LARGE = [1] * SIZE, [0x01010101] * SIZE
lines = st.lists(st.sampled_from([SMALL, SMALL, LARGE]), max_size=12).map(lambda blocks: [*chain(*blocks)])


@given(lines, lines)
@example(LARGE, SMALL * 4)
@example(SMALL + LARGE, SMALL * 5)
def test_small_and_large_tokens_of_the_same_bytes_never_make_the_same_key(one, other):
    whole = min(len(one), len(other)) // SIZE
    same = sum(one[: n * SIZE] == other[: n * SIZE] for n in range(1, whole + 1))
    assert len(set(keys(one)) & set(keys(other))) == same


def test_several_that_rest_at_once_rest_in_their_order_and_the_rest_is_free():
    a, b, c = keys(range(12))
    index = PrefixIndex(BLOCKS)
    index.add([5, 6, 7], [a, b, c], [1, 1, 1])
    assert index.make_evictable([7, 3, 5, 9]) == [3, 9]
    assert (index.evictable, index.evict(1)) == (2, [7])
