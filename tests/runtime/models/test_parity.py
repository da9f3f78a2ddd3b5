"""Our decoder against `transformers` on small random models: logits within 1e-4 and 64 greedy tokens alike."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runtime.models.worlds import Driver, generate, open_paged, random_model

_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"tie_word_embeddings": False}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 5e4, "factor": 2.0}}),
    "llama-llama3": ("Llama", {"rope_parameters": _LLAMA3}),
    "llama-wide-heads": ("Llama", {"head_dim": 20, "num_key_value_heads": 6}),
    "qwen2": ("Qwen2", {"num_key_value_heads": 3}),
    "qwen2-tied": ("Qwen2", {"tie_word_embeddings": True, "rms_norm_eps": 1e-5}),
    "qwen3": ("Qwen3", {}),
    "qwen3-tied-linear": (
        "Qwen3",
        {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("exact", [False, True], ids=["plain", "exact"])
def test_logits_and_greedy_tokens_equal_transformers(case: str, exact: bool, tmp_path: Path) -> None:
    architecture, sizes = CASES[case]
    theirs = random_model(architecture, **sizes)
    theirs.save_pretrained(tmp_path, max_shard_size="40KB" if case in ("llama", "qwen3-tied-linear") else "1GB")
    driver = Driver(open_paged(tmp_path, exact=exact), seed=5)
    rng = random.Random(case)
    prompts = [[rng.randrange(211) for _ in range(length)] for length in (1, 17, 90)]
    for prompt in prompts:
        ours = generate(driver, prompt, 64, chunk=23)
        with torch.inference_mode():
            logits = theirs(torch.tensor([ours.tokens[:-1]])).logits[0]
        for index, line in enumerate(ours.logits):
            wanted = logits[len(prompt) - 1 + index]
            assert float((line - wanted).abs().max()) < 1e-4
            assert ours.tokens[len(prompt) + index] == int(wanted.argmax())


def test_mixed_batches_of_chunks_and_decode_rows_equal_transformers(tmp_path: Path) -> None:
    theirs = random_model("Llama")
    theirs.save_pretrained(tmp_path)
    driver = Driver(open_paged(tmp_path, block_tokens=8, blocks=160), seed=1)
    rng = random.Random(2)
    lengths = (3, 40, 100, 1, 64)
    courses = [driver.start(str(n), [rng.randrange(211) for _ in range(n)]) for n in lengths]
    while any(len(course.logits) < 20 for course in courses):
        waiting = [course for course in courses if len(course.logits) < 20]
        rows = [(course, min(rng.randint(1, 33), len(course.tokens) - course.computed)) for course in waiting]
        driver.run(rng.sample(rows, rng.randint(1, len(rows))))
    for course, length in zip(courses, lengths, strict=True):
        with torch.inference_mode():
            logits = theirs(torch.tensor([course.tokens[:-1]])).logits[0, length - 1 :]
        assert float((torch.stack(course.logits) - logits).abs().max()) < 1e-4
        assert course.tokens[length:] == logits.argmax(1).tolist()
