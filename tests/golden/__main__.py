"""Writes the golden files again: `python -m tests.golden` (about a minute). A diff of them needs a reason."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.golden import files, peer
from tests.golden.files import NAMES, SAMPLING, Golden, Reply
from tests.golden.kinds import EMBEDDED, KINDS, OUTPUT

MARGIN_MIN = 2e-4
"""Every choice is clear by more than rounding and corruption, or another prompt is drawn."""
OPTIONS = ((0.5, 1.0), (1.0, 1.0), (1.7, 1.0), (1.0, 0.9), (0.7, 0.5), (1.0, 0.05))
"""Temperature and top_p of `sampling.json`."""


def main() -> None:
    files.FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        shapes = {} if name == EMBEDDED else peer.shapes_of(KINDS[name])
        with tempfile.TemporaryDirectory() as parent:
            model = peer.open_model(files.directory(name, shapes, Path(parent)))
            golden = Golden(name, shapes, [_reply(model, name, length) for length in files.lengths(name)])
            if name == EMBEDDED:
                _write_sampling(model, golden)
        files.write(golden, peer.VERSION)
        print(f"{name}: {len(golden.replies)} replies, salts {[reply.salt for reply in golden.replies if reply.salt]}")


def _reply(model: Any, name: str, length: int) -> Reply:
    for salt in range(100):
        tokens = files.prompt(name, length, salt)
        for _ in range(OUTPUT):
            tokens.append(int(peer.logits(model, tokens, 1).argmax()))
        lines = torch.log_softmax(peer.logits(model, tokens[:-1], OUTPUT).double(), 1)
        best = lines.topk(2).values
        if float((best[:, 0] - best[:, 1]).min()) > MARGIN_MIN:
            said = tokens[length:]
            top = lines[-1].topk(5)
            pairs = list(zip(top.indices.tolist(), _rounded(top.values), strict=True))
            return Reply(length, salt, said, _rounded(lines[range(OUTPUT), said]), pairs)
    raise AssertionError(f"{name}: no prompt of {length} tokens whose reply has clear choices")


def _write_sampling(model: Any, golden: Golden) -> None:
    rows = []
    for reply in golden.replies:
        if reply.length not in (17, 64):
            continue
        line = peer.logits(model, golden.prompt(reply), 1)[0]
        for temperature, top_p in OPTIONS:
            shares = peer.warped(line, temperature, top_p)
            kept = {str(token): round(float(shares[token]), 8) for token in shares.nonzero()[:, 0].tolist()}
            kept = {token: share for token, share in kept.items() if share > 0}
            rows.append({"length": reply.length, "salt": reply.salt, "temperature": temperature, "top_p": top_p,
                         "shares": kept})  # fmt: skip
    lines = ",\n".join(json.dumps(row) for row in rows)
    SAMPLING.write_text(f'{{"transformers": "{peer.VERSION}", "shares": [\n{lines}\n]}}\n')


def _rounded(values: torch.Tensor) -> list[float]:
    return [round(value, 7) for value in values.tolist()]


main()
