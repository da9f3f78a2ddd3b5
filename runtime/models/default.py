"""The embedded default model: a byte-level Llama with seeded random weights whose output changes when KV is damaged.

    spread 0.02                 most greedy outputs end in one or two tokens; half of the lost tokens change nothing
    spread 0.1, q and k x 3     attention picks single tokens: damage shows, but rounding does too (|dlogit| 2e-4)
    0.1, x 2, 12 small heads,   damage shows (a lost token, foreign block or position off by one always, a swapped
    logits of spread 0.35       pair in 98 % at 512 tokens), and rounding stays under the 3e-5 of benign drift: 1e-5

It writes only printable ASCII and line ends, so its text and its tokens correspond one to one, and it never emits EOS:
one channel of the residual stream is constant, and the head subtracts it from all other tokens.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch import Tensor

from runtime.models.config import read_config
from runtime.models.loader import weights_digest
from runtime.models.weights import tensor_shapes

RECIPE = 1
"""Raised with every change to what is written; it is part of the directory's name."""
NAME = "seatrial-default"
DIGEST = "12977095f0c6c098b07f4180e78710a06d652046d1e4e0a2567cd2490b02942f"
"""`weights_digest` of what this recipe writes, on every machine."""
_SEED = 20_240_501
_BOS, _EOS = 256, 257
_SPREAD = 0.1
_SHARP = 2.0  # times _SPREAD for q and k
_LOUDNESS = 0.25  # times _SPREAD for the head: logits spread by 0.35
_QUIET_CHANNEL = 0
_CONSTANT = 0.4
_HUSH = 400.0
_WRITTEN = (10, *range(32, 127))
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 260,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": _BOS,
    "eos_token_id": _EOS,
    "initializer_range": 0.1,
    "dtype": "float32",
    "transformers_version": "5.0.0",
}


def default_model(cache: Path | None = None) -> Path:
    """The directory of the default model. It is written first if it is missing or damaged; several processes may do so
    at once. Raises OSError when it can't be written."""
    folder = cache_folder() if cache is None else cache
    directory = folder / f"{NAME}-{RECIPE}"
    if not _is_whole(directory):
        _write_atomically(directory)
    return directory


def cache_folder() -> Path:
    """`$SEATRIAL_CACHE`, or `~/.cache/seatrial`."""
    named = os.environ.get("SEATRIAL_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "seatrial"


def _write_atomically(directory: Path) -> None:
    """Writes into a draft directory, then renames it: a reader sees all of it or nothing."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        (draft / "config.json").write_text(json.dumps(_CONFIG, indent=2) + "\n", encoding="utf-8")
        save_file(_tensors(draft), str(draft / "model.safetensors"), metadata={"format": "pt"})
        made = weights_digest(draft)
        assert made == DIGEST, f"the default weights came out as {made}, not {DIGEST}: raise RECIPE with each change"
        shutil.rmtree(directory, ignore_errors=True)
        draft.rename(directory)
    except OSError:
        if not _is_whole(directory):  # else another process was faster, and its model is the same
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _is_whole(directory: Path) -> bool:
    """True when the directory holds exactly what this recipe writes. A full disk or an editor may have changed it."""
    try:
        configured = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        return bool(configured == _CONFIG and weights_digest(directory) == DIGEST)
    except (OSError, ValueError):
        return False


def _tensors(directory: Path) -> dict[str, Tensor]:
    """The tensors of the model. Each has a random generator of its own, so a change to one leaves the others alone."""
    tensors = {}
    for index, (name, shape) in enumerate(sorted(tensor_shapes(read_config(directory)).items())):
        if len(shape) == 1:
            tensors[name] = torch.ones(shape)
            continue
        tensor = torch.from_numpy(_bell(_SEED + index, shape)) * _SPREAD
        if "q_proj" in name or "k_proj" in name:
            tensor *= _SHARP
        if "o_proj" in name or "down_proj" in name:
            tensor[_QUIET_CHANNEL] = 0  # nothing writes to the constant channel
        tensors[name] = tensor
    tensors["model.embed_tokens.weight"][:, _QUIET_CHANNEL] = _CONSTANT
    head = tensors["lm_head.weight"].mul_(_LOUDNESS)
    head[:, _QUIET_CHANNEL] = -_HUSH
    head[list(_WRITTEN), _QUIET_CHANNEL] = 0
    return tensors


def _bell(seed: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Nearly normal float32 numbers with a standard deviation of 1: sums of four 16-bit integers. They are equal to the
    bit on every machine; the logarithms inside `randn` are not."""
    raw = np.random.PCG64(seed).random_raw(int(np.prod(shape)))
    sums = raw.view(np.uint16).reshape(-1, 4).astype(np.int64).sum(1)
    bell: npt.NDArray[np.float32] = ((sums - 2 * 65535) * (3**0.5 / 65536)).astype(np.float32)
    return bell.reshape(shape)
