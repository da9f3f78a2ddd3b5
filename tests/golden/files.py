"""The golden files: read, written, and the model directories that belong to them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runtime.models.default import default_model
from tests.golden import checkpoint
from tests.golden.kinds import EMBEDDED, KINDS, LENGTHS, LENGTHS_EMBEDDED

FOLDER = Path(__file__).parent / "kinds"
SAMPLING = Path(__file__).parent / "sampling.json"
NAMES = (*KINDS, EMBEDDED)


@dataclass(frozen=True)
class Reply:
    """A greedy reply to the prompt of this length. `top` are the best five candidates for its last token, each with its
    log probability."""

    length: int
    salt: int
    """Draws another prompt, where two tokens were too near to each other for float32."""
    tokens: list[int]
    logprobs: list[float]
    top: list[tuple[int, float]]


@dataclass(frozen=True)
class Golden:
    """The golden values of one kind of model."""

    name: str
    shapes: dict[str, list[int]]
    """The tensors of its files, as `transformers` names them."""
    replies: list[Reply]

    def prompt(self, reply: Reply) -> list[int]:
        """The tokens that were asked."""
        return prompt(self.name, reply.length, reply.salt)

    def directory(self, parent: Path) -> Path:
        """The model's files, in a new folder of `parent`."""
        return directory(self.name, self.shapes, parent)


def read(name: str) -> Golden:
    """The golden values of a kind."""
    raw = json.loads((FOLDER / f"{name}.json").read_text())
    replies = [Reply(**{**one, "top": [(token, value) for token, value in one["top"]]}) for one in raw["replies"]]
    return Golden(name, raw["shapes"], replies)


def write(golden: Golden, version: str) -> None:
    """Write the golden values of a kind, a reply in each line."""
    head = {"transformers": version, "shapes": golden.shapes}
    lines = ",\n".join(json.dumps(asdict(reply)) for reply in golden.replies)
    text = json.dumps(head)[:-1] + ', "replies": [\n' + lines + "\n]}\n"
    (FOLDER / f"{golden.name}.json").write_text(text)


def read_sampling() -> list[dict[str, Any]]:
    """Shares from which tokens are drawn: `length`, `salt`, `temperature`, `top_p` and `shares`, a share by token."""
    found: list[dict[str, Any]] = json.loads(SAMPLING.read_text())["shares"]
    return found


def lengths(name: str) -> tuple[int, ...]:
    """The prompt lengths of a kind."""
    return LENGTHS_EMBEDDED if name == EMBEDDED else LENGTHS


def prompt(name: str, length: int, salt: int) -> list[int]:
    """The prompt of a kind; that of the embedded model is BOS and printable text."""
    key = f"{name}/{length}/{salt}"
    if name == EMBEDDED:
        return [256, *(29 + token for token in checkpoint.tokens(key, length - 1, 98))]
    return checkpoint.tokens(key, length, KINDS[name]["vocab_size"])


def directory(name: str, shapes: dict[str, list[int]], parent: Path) -> Path:
    """The files of a kind, in a new folder of `parent`."""
    if name == EMBEDDED:
        return default_model(parent)
    folder = parent / name
    folder.mkdir()
    return checkpoint.write(folder, KINDS[name], shapes, sharded=name.endswith("sharded"))
