"""Bytes that torch allocates by itself are counted, and those of a decode step may only become fewer."""

import numpy as np
import pytest
import torch

from runtime.device.allocation_tracker import AllocationTracker
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner
from tests.runtime.models.worlds import Driver

ROW_BYTES_MAX = 8
"""AllocationTracker bytes of a decode step, a row: the number of the best token. This may only become smaller."""
STEP_BYTES_MAX = 264
"""What torch's allocator gives beside that in a whole decode step, for the numbers among its arguments."""
CHUNK_TOKEN_BYTES_MAX = 3 * 2496
"""Of a chunk, a token: what the fused attention kernel makes in each of 3 layers, and copies. Also only smaller."""


def counted(model: ModelRunner, driver: Driver, rows: int, tokens: int) -> AllocationTracker:
    """One launch of `rows` rows of `tokens` tokens, greedy."""
    courses = [driver.start(str(row), [7 + row] * tokens) for row in range(rows)]
    driver.run([(course, tokens) for course in courses])
    work = driver.work([(course, 1) for course in courses])
    model.run(work)
    with torch.inference_mode(), AllocationTracker() as unowned:
        model.run(work)
    return unowned


@pytest.fixture(scope="module")
def model() -> ModelRunner:
    config = read_config(default_model())
    return ModelRunner(Decoder(config, load_weights(default_model(), config)), PagedKv(config, 128, 16))


@pytest.mark.parametrize("by_page", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 17])
def test_a_decode_step_asks_torch_for_nothing_but_its_answer(model: ModelRunner, rows: int, by_page: bool):
    driver = Driver(model)
    driver.free = list(range(128)) if by_page else list(range(0, 128, 3))
    unowned = counted(model, driver, rows, 9)
    assert unowned.bytes <= ROW_BYTES_MAX * rows, unowned.by_operator


def test_torchs_own_allocator_says_the_same(model: ModelRunner):
    driver = Driver(model)
    courses = [driver.start(str(row), [7 + row] * 5) for row in range(4)]
    driver.run([(course, 5) for course in courses])
    work = driver.work([(course, 1) for course in courses])
    model.run(work)
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        model.run(work)
    given = [one.nbytes() for one in profile.kineto_results.events() if one.name() == "[memory]"]
    assert sum(size for size in given if size > 0) <= 4 * ROW_BYTES_MAX + STEP_BYTES_MAX


def test_a_chunk_asks_torch_for_its_attention_only(model: ModelRunner):
    driver = Driver(model)
    work = driver.work([(driver.start("a", [5] * 40), 40)])
    with torch.inference_mode(), AllocationTracker() as unowned:
        model.run(work)
    assert unowned.bytes <= CHUNK_TOKEN_BYTES_MAX * 40, unowned.by_operator
    assert set(unowned.by_operator) <= {"_scaled_dot_product_flash_attention_for_cpu", "argmax", "clone"}


def test_the_model_publishes_the_most_that_it_has_seen_of_each_phase():
    config = read_config(default_model())
    fresh = ModelRunner(Decoder(config, load_weights(default_model(), config)), PagedKv(config, 16, 16))
    driver = Driver(fresh)
    assert fresh.unowned_bytes == {"prefill": 0, "decode": 0}
    course = driver.start("a", [1, 2, 3])
    fresh.run(driver.work([(course, 3)]))
    assert fresh.unowned_bytes["prefill"] > 0 == fresh.unowned_bytes["decode"]
    course.computed, course.tokens = 3, [1, 2, 3, 4]
    fresh.run(driver.work([(course, 1)]))
    assert fresh.unowned_bytes["decode"] == ROW_BYTES_MAX


def test_results_count_and_views_in_place_forms_and_out_do_not():
    whole = torch.zeros(4, 8)
    with AllocationTracker() as unowned:
        part = whole[1:].t()
        part.add_(1)
        torch.mul(whole, 2, out=whole)
        torch.from_numpy(np.zeros(3))
        assert unowned.bytes == 0
        whole + 1
        assert dict(unowned.by_operator) == {"add": 128}
        torch.nn.functional.linear(whole, torch.eye(8))
    assert unowned.by_operator["eye"] == 256
    assert unowned.by_operator["mm"] + unowned.by_operator["linear"] == 128


def test_what_an_operator_is_made_of_is_counted():
    values = torch.ones(2, 4)
    with torch.inference_mode(), AllocationTracker() as unowned:
        torch.rms_norm(values, (4,), torch.ones(4), 1e-5)
    assert unowned.bytes > 32 + 16, "the squares and means too"
