"""Small random models in Hugging Face format, and a driver that plays the engine: any batches, chunks and blocks."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from runtime.core.work import Sampling, Work, padded_tables
from runtime.models.config import DecoderConfig, read_config
from runtime.models.decoder import Decoder
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner

ONE_LAYER = DecoderConfig(
    architectures=["LlamaForCausalLM"],
    vocab_size=50,
    hidden_size=24,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=512,
)
"""A decoder of one small layer whose heads share KV, for parts that need no weights."""

SIZES: dict[str, Any] = {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "initializer_range": 0.1,
}


def random_model(architecture: str, seed: int = 0, **sizes: Any) -> Any:
    """A transformers model in eval mode with random weights and random norms."""
    import transformers

    config = getattr(transformers, f"{architecture}Config")(**{**SIZES, **sizes}, attn_implementation="eager")
    torch.manual_seed(seed)
    model = getattr(transformers, f"{architecture}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):  # ones and zeros would hide a forgotten multiplication
                parameter.uniform_(0.5, 1.5)
    return model


def open_paged(directory: Path, *, blocks: int = 64, block_tokens: int = 16, exact: bool = False) -> ModelRunner:
    config = read_config(directory)
    decoder = Decoder(config, load_weights(directory, config), batch_invariant=exact)
    return ModelRunner(decoder, PagedKv(config, blocks, block_tokens))


@dataclass
class Course:
    """One request: its tokens, how many are in KV, and its blocks in the order of the table."""

    id: str
    tokens: list[int]
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    logits: list[torch.Tensor] = field(default_factory=list)
    """One entry for each sampled token."""


class Driver:
    """Hands out shuffled blocks and builds `Work` as the engine does."""

    def __init__(self, model: ModelRunner, seed: int = 0) -> None:
        self.model = model
        self.free = list(range(model.kv.blocks))
        random.Random(seed).shuffle(self.free)
        self.step = 0
        self.damage: Callable[[Work], None] = lambda work: None

    def start(self, name: str, prompt: Sequence[int]) -> Course:
        return Course(name, list(prompt))

    def end(self, sequence: Course) -> None:
        self.free += sequence.blocks
        sequence.blocks = []

    def work(self, rows: Sequence[tuple[Course, int]]) -> Work:
        """`n` more tokens of each sequence."""
        block_tokens = self.model.kv.block_tokens
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        for sequence, count in rows:
            end = sequence.computed + count
            while len(sequence.blocks) * block_tokens < end:
                sequence.blocks.append(self.free.pop())
            for position in range(sequence.computed, end):
                tokens.append(sequence.tokens[position])
                positions.append(position)
                slots.append(sequence.blocks[position // block_tokens] * block_tokens + position % block_tokens)
        self.step += 1
        ends = [sequence.computed + count for sequence, count in rows]
        return Work(
            step=self.step,
            model_key="",
            request_ids=tuple(sequence.id for sequence, _ in rows),
            token_ids=np.array(tokens, np.int64),
            positions=np.array(positions, np.int64),
            slots=np.array(slots, np.int64),
            row_starts=np.cumsum([0, *(count for _, count in rows)]),
            context_lens=np.array(ends, np.int64),
            block_tables=padded_tables([sequence.blocks for sequence, _ in rows]),
            sampling=tuple(
                Sampling() if end == len(sequence.tokens) else None
                for (sequence, _), end in zip(rows, ends, strict=True)
            ),
            prefix_hashes=np.zeros(len(rows), np.uint64),
        )

    def run(self, rows: Sequence[tuple[Course, int]]) -> None:
        """One launch; sampled rows get their greedy token and keep their logits."""
        work = self.work(rows)
        self.damage(work)
        picked, logits = self.model.logits(work)
        for sequence, count in rows:
            sequence.computed += count
        for row, line in zip(picked, logits, strict=True):
            rows[row][0].logits.append(line.clone())
            rows[row][0].tokens.append(int(line.argmax()))


def generate(driver: Driver, prompt: Sequence[int], new: int, chunk: int = 10_000) -> Course:
    """`new` greedy tokens of one request alone."""
    sequence = driver.start("alone", prompt)
    while len(sequence.tokens) < len(prompt) + new:
        driver.run([(sequence, min(chunk, len(sequence.tokens) - sequence.computed))])
    return sequence
