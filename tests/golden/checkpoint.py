"""Writes the model of a kind as files: weights follow from the names of the tensors, equal to the bit everywhere."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def write(directory: Path, config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], *, sharded: bool) -> Path:
    """Write `config.json` and the tensors of `shapes` into `directory`; `sharded` in two files with an index."""
    (directory / "config.json").write_text(json.dumps(config))
    tensors = {name: tensor(name, shape).to(_DTYPES[config["dtype"]]) for name, shape in shapes.items()}
    if not sharded:
        save_file(tensors, str(directory / "model.safetensors"), metadata={"format": "pt"})
        return directory
    names = sorted(tensors)
    files = {f"model-0000{n}-of-00002.safetensors": names[n - 1 :: 2] for n in (1, 2)}
    for file, part in files.items():
        save_file({name: tensors[name] for name in part}, str(directory / file), metadata={"format": "pt"})
    placed = {name: file for file, part in files.items() for name in part}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    return directory


def tensor(name: str, shape: Sequence[int]) -> torch.Tensor:
    """The weights of a name. Norms and biases are 0.5 to 1.5, since ones and zeros would hide that one is forgotten; q
    and k are large, so that attention picks single tokens and a wrong position shows."""
    flat = _uniform(name, int(np.prod(shape)))
    width = 0.8 if "q_proj" in name or "k_proj" in name else 0.4
    values = 0.5 + flat if len(shape) == 1 else (flat - 0.5) * width
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def tokens(name: str, count: int, vocabulary: int) -> list[int]:
    """The prompt of a name: ids above the special tokens."""
    return (3 + (_uniform(name, count) * (vocabulary - 3)).astype(int)).tolist()


def _uniform(name: str, count: int) -> np.ndarray:
    """Numbers in [0, 1) of 32 bits. The raw output of PCG64 is the same for every version of NumPy."""
    seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
    raw = np.random.PCG64(seed).random_raw(count)
    return (raw >> np.uint64(32)).astype(np.float64) / 2**32
