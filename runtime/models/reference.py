"""Computes the correct replies of canaries: greedy tokens of a model in batch-invariant mode, one request at a time.

    python -m runtime.models.reference --model DIR < prompts.json > replies.json

    in     {"prompts": [{"id": "c0", "text": "..." | "tokens": [...], "max_tokens": 32, "ignore_eos": false}]}
    out    {"weights_digest": "...", "replies": [{"id", "tokens", "names", "text", "logprobs", "margins"}]}

`margins` are the best logit minus the second best of each choice: more noise than that changes the choice.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from runtime.core.naming import token_name
from runtime.core.work import Sampling, Work
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights, weights_digest
from runtime.models.runner import ModelRunner
from runtime.models.sampler import margins
from runtime.models.tokenizer import read_tokenizer

_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Continuation:
    """One greedy reply; the three lists have equal lengths."""

    tokens: list[int]
    logprobs: list[float]
    margins: list[float]


class Reference:
    """A model with KV of its own. Its results do not depend on order, batch or chunks. Raises ModelRefused."""

    def __init__(self, directory: Path) -> None:
        config = read_config(directory)
        self._context_max = config.context_max
        blocks = -(-config.context_max // _BLOCK_TOKENS)
        decoder = Decoder(config, load_weights(directory, config), batch_invariant=True)
        self._model = ModelRunner(decoder, PagedKv(config, blocks, _BLOCK_TOKENS))

    def greedy(self, prompt: Sequence[int], tokens_max: int, stops: frozenset[int] = frozenset()) -> Continuation:
        """Generates at most `tokens_max` tokens, and ends behind a stop token. Raises ValueError when the prompt is
        empty or the context too short."""
        if not prompt or len(prompt) + tokens_max > self._context_max:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens and {tokens_max} more; at least 1 and together at most "
                f"{self._context_max} fit into the context"
            )
        answer = Continuation([], [], [])
        fresh, done = list(prompt), 0
        while len(answer.tokens) < tokens_max and not (answer.tokens and answer.tokens[-1] in stops):
            _, logits = self._model.logits(_alone(fresh, done))
            token = int(logits[0].argmax())
            answer.tokens.append(token)
            answer.logprobs.append(float(torch.log_softmax(logits[0], 0)[token]))
            answer.margins.extend(margins(logits))
            done += len(fresh)
            fresh = [token]
        return answer


def _alone(tokens: Sequence[int], done: int) -> Work:
    """Work for `tokens` that follow `done` other tokens of the only request, in blocks 0, 1, 2, ..."""
    end = done + len(tokens)
    positions = np.arange(done, end)
    return Work(
        step=0,
        model_key="",
        request_ids=("reference",),
        token_ids=np.array(tokens, np.int64),
        positions=positions,
        slots=positions,
        row_starts=np.array([0, len(tokens)]),
        context_lens=np.array([end]),
        block_tables=np.arange(-(-end // _BLOCK_TOKENS))[None, :],
        sampling=(Sampling(),),
        prefix_hashes=np.zeros(1, np.uint64),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads prompts from stdin and writes replies to stdout. Raises ModelRefused."""
    parser = argparse.ArgumentParser(prog="python -m runtime.models.reference", description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="Hugging Face directory; the embedded default when left out")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    directory = given.model or default_model()
    tokenizer, reference = read_tokenizer(directory), Reference(directory)
    replies = []
    for prompt in json.load(sys.stdin)["prompts"]:
        tokens = prompt["tokens"] if "tokens" in prompt else tokenizer.encode(prompt["text"])
        stops = frozenset() if prompt.get("ignore_eos") else tokenizer.stop_tokens
        answer = reference.greedy(tokens, prompt["max_tokens"], stops)
        text = tokenizer.decode([token for token in answer.tokens if token not in stops])
        replies.append(
            {
                "id": prompt["id"],
                "tokens": answer.tokens,
                "names": [token_name(tokenizer.decode, token) for token in answer.tokens],
                "text": text,
                "logprobs": answer.logprobs,
                "margins": answer.margins,
            }
        )
    json.dump({"weights_digest": weights_digest(directory), "replies": replies}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
