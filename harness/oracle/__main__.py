"""Computes the correct replies of a model, for the canaries and for bystanders.

python -m harness.oracle DIR < prompts.json > replies.json

in     [{"id": "c0", "text": "...", "max_tokens": 32}]
out    [{"id", "tokens", "names", "text", "logprobs", "margins"}]
"""

import json
import sys
from pathlib import Path

from harness.oracle.model import Model
from harness.oracle.reply import Ask, replies
from harness.oracle.text import ModelTokenizer


def main() -> int:
    """Reads prompts from stdin and writes the replies to stdout."""
    directory = Path(sys.argv[1])
    model, tokenizer = Model(directory), ModelTokenizer(directory)
    prompts, stops = json.load(sys.stdin), model.settings.stops
    asks = [Ask(tokenizer.encode(prompt["text"]), prompt["max_tokens"]) for prompt in prompts]
    written = [
        {
            "id": prompt["id"],
            "tokens": reply.tokens,
            "names": [tokenizer.name(token) for token in reply.tokens],
            "text": tokenizer.decode([token for token in reply.tokens if token not in stops]),
            "logprobs": reply.logprobs,
            "margins": reply.margins,
        }
        for prompt, reply in zip(prompts, replies(model, asks, stops), strict=True)
    ]
    json.dump(written, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
