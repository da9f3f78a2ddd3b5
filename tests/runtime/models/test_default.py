"""The default model notices damage to what it reads, writes plain text, and is the same everywhere."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from runtime.core.work import Work
from runtime.models.default import DIGEST, cache_folder, default_model
from runtime.models.loader import weights_digest
from runtime.models.tokenizer import read_tokenizer
from tests.runtime.models.worlds import Course, Driver, open_paged

WRITTEN = {10, *range(32, 127)}
REQUESTS = 40
NEW = 32
BLOCK_TOKENS = 16


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return default_model(tmp_path_factory.mktemp("cache"))


def prompts(length: int) -> list[list[int]]:
    rng = random.Random(length)
    return [[rng.choice(sorted(WRITTEN)) for _ in range(length)] for _ in range(REQUESTS)]


def answers(
    directory: Path,
    asked: Sequence[list[int]],
    *,
    after_prefill: Callable[[Driver, list[Course]], None] = lambda driver, courses: None,
    decode_damage: Callable[[Work], None] = lambda work: None,
) -> list[list[int]]:
    """Greedy tokens of all prompts, decoded together."""
    blocks = sum(-(-(len(prompt) + NEW) // BLOCK_TOKENS) for prompt in asked)
    driver = Driver(open_paged(directory, blocks=blocks, block_tokens=BLOCK_TOKENS))
    courses = [driver.start(str(index), prompt) for index, prompt in enumerate(asked)]
    for course in courses:
        driver.run([(course, len(course.tokens))])
    after_prefill(driver, courses)
    driver.damage = decode_damage
    for _ in range(NEW - 1):
        driver.run([(course, 1) for course in courses])
    return [course.tokens[-NEW:] for course in courses]


def lose_a_token(prompt: list[int], rng: random.Random) -> list[int]:
    at = rng.randrange(len(prompt))
    return prompt[:at] + prompt[at + 1 :]


def swap_a_pair(prompt: list[int], rng: random.Random) -> list[int]:
    at = rng.choice([at for at in range(len(prompt) - 1) if prompt[at] != prompt[at + 1]])
    return [*prompt[:at], prompt[at + 1], prompt[at], *prompt[at + 2 :]]


def take_foreign_blocks(driver: Driver, courses: list[Course]) -> None:
    """One full block of each request holds what the next request wrote at the same place."""
    rng = random.Random(5)
    for course, other in zip(courses, courses[1:] + courses[:1], strict=True):
        index = rng.randrange(course.computed // BLOCK_TOKENS)
        for store in (*driver.model.kv.keys, *driver.model.kv.values):
            store[course.blocks[index]] = store[other.blocks[index]]


def shift_positions(work: Work) -> None:
    np.add(work.positions, 1, out=work.positions)


def share_changed(clean: list[list[int]], damaged: list[list[int]]) -> float:
    return sum(one != other for one, other in zip(clean, damaged, strict=True)) / REQUESTS


@pytest.mark.parametrize("length", [48, pytest.param(512, marks=pytest.mark.slow)])
def test_nearly_all_damage_changes_the_greedy_output(directory: Path, length: int) -> None:
    asked = prompts(length)
    clean = answers(directory, asked)
    assert answers(directory, asked) == clean
    rng = random.Random(1)
    changed = {
        "lost token": answers(directory, [lose_a_token(prompt, rng) for prompt in asked]),
        "swapped pair": answers(directory, [swap_a_pair(prompt, rng) for prompt in asked]),
        "foreign block": answers(directory, asked, after_prefill=take_foreign_blocks),
        "off by one": answers(directory, asked, decode_damage=shift_positions),
    }
    shares = {kind: share_changed(clean, damaged) for kind, damaged in changed.items()}
    assert min(shares.values()) >= 0.95, shares
    assert {token for answer in clean for token in answer} <= WRITTEN
    assert min(len(set(answer)) for answer in clean) > 2, "it babbles one token"


def test_its_weights_are_the_same_to_the_bit_everywhere(directory: Path) -> None:
    assert weights_digest(directory) == DIGEST


def test_it_is_written_once_and_again_only_when_damaged(tmp_path: Path) -> None:
    directory = default_model(tmp_path)
    weights = directory / "model.safetensors"
    before = weights.stat().st_ino
    assert default_model(tmp_path) == directory
    assert weights.stat().st_ino == before
    torn = bytearray(weights.read_bytes())
    torn[-1] ^= 1
    weights.write_bytes(torn)
    assert weights_digest(default_model(tmp_path)) == DIGEST
    (directory / "config.json").write_text("{}")
    default_model(tmp_path)
    assert json.loads((directory / "config.json").read_text())["vocab_size"] == 260
    assert [path.name for path in tmp_path.iterdir()] == [directory.name], "no drafts are left"


def test_the_cache_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("SEATRIAL_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "seatrial"


def test_its_text_says_as_much_as_its_tokens(directory: Path) -> None:
    tokenizer = read_tokenizer(directory)
    for answer in answers(directory, prompts(20)):
        assert list(tokenizer.decode(answer).encode()) == answer
