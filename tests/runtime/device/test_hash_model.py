"""The keyed model: alone or in company, whole or in chunks, the answer is `expected`; damage to the KV shows in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.work import Sampling, Work, padded_tables
from runtime.device.hash_model import SAID, HashModel, drawn, expected, key_of, prompt_tokens

SIZE = 4
Row = tuple[list[int], int, list[int]]  # tokens to compute, position of the first, block table


def work(rows: list[Row]) -> Work:
    lengths = [len(tokens) for tokens, _, _ in rows]
    positions = [start + at for tokens, start, _ in rows for at in range(len(tokens))]
    slots = [
        table[at // SIZE] * SIZE + at % SIZE
        for tokens, start, table in rows
        for at in range(start, start + len(tokens))
    ]
    return Work(
        step=1,
        model_key="",
        request_ids=tuple(f"r{at}" for at in range(len(rows))),
        token_ids=np.array([token for tokens, _, _ in rows for token in tokens], np.int64),
        positions=np.array(positions, np.int64),
        slots=np.array(slots, np.int64),
        row_starts=np.cumsum([0, *lengths]),
        context_lens=np.array([start + len(tokens) for tokens, start, _ in rows], np.int64),
        block_tables=padded_tables([table for _, _, table in rows]),
        sampling=(Sampling(),) * len(rows),
        prefix_hashes=np.zeros(len(rows), np.uint64),
    )


def answer(model: HashModel, prompt: list[int], table: list[int], n: int, chunk: int) -> list[int]:
    """One request by itself: its prompt in chunks, then a token a launch."""
    tokens, computed = list(prompt), 0
    while len(tokens) < len(prompt) + n:
        part = tokens[computed : computed + chunk]
        (sampled,) = model.run(work([(part, computed, table)]))
        computed += len(part)
        if computed == len(tokens):
            assert sampled is not None
            tokens.append(sampled.token)
    return tokens[len(prompt) :]


prompts = st.lists(st.integers(0, 127), min_size=1, max_size=12)


@given(prompts, st.integers(1, 8), st.integers(1, 5), st.integers(0, 99))
def test_chunks_and_blocks_do_not_change_the_answer(prompt, n, chunk, seed):
    model = HashModel(8, SIZE, seed)
    table = [5, 1, 7, 0, 3]
    assert answer(model, prompt, table, n, chunk) == [one.token for one in expected(prompt, n, seed)]


@given(prompts, prompts, st.integers(0, 3))
def test_neighbours_in_a_launch_do_not_change_the_answer(one, other, seed):
    model = HashModel(8, SIZE, seed)
    first, second = model.run(work([(one, 0, [0, 1, 2]), (other, 0, [3, 4, 5])]))
    assert first == expected(one, 1, seed)[0]
    assert second == expected(other, 1, seed)[0]


@pytest.mark.parametrize("damage", ["none", "foreign", "lost", "doubled"])
def test_damaged_kv_changes_what_follows(damage):
    model, prompt, table = HashModel(8, SIZE, 1), [1, 2, 3, 4, 5, 6], [0, 1, 2, 3]
    truth = [one.token for one in expected(prompt, 8, 1)]
    model.run(work([(prompt, 0, table)]))
    if damage == "foreign":  # the request's last block now holds somebody else's
        model.run(work([([9, 9], 0, [1])]))
    elif damage == "doubled":  # its last token once more, where the next one belongs
        model.run(work([([6], 6, table)]))
    first = 1 if damage in ("lost", "doubled") else 0  # position 6 is not computed
    said = []
    for at in range(first, 7):
        (sampled,) = model.run(work([([truth[at]], 6 + at, table)]))
        assert sampled is not None
        said.append(sampled.token)
    assert (said == truth[first + 1 :]) == (damage == "none")


def said(prompt: list[int], n: int, seed: int) -> list[int]:
    return [one.token for one in expected(prompt, n, seed)]


def states_of(tokens: list[int], seed: int) -> list[int]:
    """What the KV holds in each place once these have been computed, a token a launch."""
    model, table = HashModel(16, SIZE, seed), list(range(16))
    for at, token in enumerate(tokens):
        model.run(work([([token], at, table)]))
    return model.slots[: len(tokens)].tolist()


@given(prompts, st.integers(1, 20), st.integers(1, 9), st.integers(0, 9), st.data())
def test_what_was_said_before_may_be_computed_again_in_any_chunks(prompt, n, chunk, seed, data):
    again = prompt + said(prompt, n, seed)
    company = data.draw(prompts)
    model, table, computed, last = HashModel(24, SIZE, seed), list(range(16)), 0, None
    while computed < len(again):
        part = again[computed : computed + chunk]
        _, last = model.run(work([(company, 0, [20, 21, 22]), (part, computed, table)]))
        computed += len(part)
    assert last == expected(prompt, n + 1, seed)[n]


@given(
    prompts,
    st.integers(1, 12),
    st.integers(0, 9),
    st.sampled_from(["lost", "doubled", "swapped", "foreign"]),
    st.data(),
)
def test_damage_anywhere_changes_every_state_after_it_token_by_token_and_in_one_launch(prompt, n, seed, damage, data):
    healthy = prompt + said(prompt, n, seed)
    at = data.draw(st.integers(0, len(healthy) - 2))
    broken = {
        "lost": healthy[:at] + healthy[at + 1 :],
        "doubled": healthy[: at + 1] + healthy[at:],
        "swapped": [*healthy[:at], healthy[at + 1], healthy[at], *healthy[at + 2 :]],
        "foreign": [*healthy[:at], data.draw(st.integers(0, 255)), *healthy[at + 1 :]],
    }[damage]
    parts = next((i for i, (a, b) in enumerate(zip(healthy, broken, strict=False)) if a != b), len(healthy))
    right, wrong = states_of(healthy, seed), states_of(broken, seed)
    common = min(len(right), len(wrong))
    parts = min(parts, common)  # the last of a run of equal tokens was lost: nothing parts
    assert right[:parts] == wrong[:parts]
    assert all(one != other for one, other in zip(right[parts:common], wrong[parts:common], strict=True))
    whole = HashModel(16, SIZE, seed)
    whole.run(work([(broken, 0, list(range(16)))]))
    assert whole.slots[: len(broken)].tolist() == wrong


@given(st.lists(prompts, min_size=1, max_size=4), st.integers(1, 20), st.integers(0, 9))
def test_decode_ahead_is_what_launches_write_and_say(asked, n, seed):
    answers = [said(prompt, n + 1, seed) for prompt in asked]
    walks = [states_of(prompt + answer[:-1], seed) for prompt, answer in zip(asked, answers, strict=True)]
    past = np.asarray([walk[len(prompt) - 1] for prompt, walk in zip(asked, walks, strict=True)], np.uint64)
    places, first = np.asarray([len(prompt) for prompt in asked]), np.asarray([answer[0] for answer in answers])
    model = HashModel(16, SIZE, seed)
    found = model.decode_ahead(past, places, first, n)
    assert found is not None
    states, tokens = found
    assert states.tolist() == [walk[len(prompt) :] for prompt, walk in zip(asked, walks, strict=True)]
    assert tokens.tolist() == [answer[1:] for answer in answers]
    assert model.decode_ahead(past, places, first + 1, n) is None


def test_a_prompt_with_tokens_that_only_the_model_says_is_our_own_mistake():
    with pytest.raises(AssertionError, match="only the model says"):
        expected([1, SAID + 40], 1, 0)


def test_margins_are_never_so_small_that_a_parting_could_be_rounding():
    for state in range(2000):
        sampled = drawn(state, key_of(3), with_logprobs=True)
        (best, high), (second, low) = sampled.top
        assert best == sampled.token
        assert best != second
        assert high - low >= 0.25


def test_prompts_of_one_seed_begin_alike_and_others_part_at_once():
    long, short = prompt_tokens([(7, 40)]), prompt_tokens([(7, 10)])
    assert long[:10] == short
    assert prompt_tokens([(8, 40)])[:4] != long[:4]
    assert prompt_tokens([(7, 10), (8, 5)]) == short + prompt_tokens([(8, 5)])
    assert all(32 <= token < 127 for token in long)
