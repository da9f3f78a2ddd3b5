"""Weights from safetensors, one file or sharded with an index. A pickle is never opened.

index or model.safetensors -> name: file -> all names, shapes and types checked at once -> fused Weights
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from runtime.models.config import DecoderConfig, ModelRefused
from runtime.models.weights import Weights, assemble, tensor_shapes

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_FLOATS = {"F64", "F32", "F16", "BF16"}


def load_weights(directory: Path, config: DecoderConfig, dtype: torch.dtype = torch.float32) -> Weights:
    """The weights of `directory` as `dtype`. Raises ModelRefused naming all wrong tensors at once."""
    with ExitStack() as stack:
        located, problems = _locate(directory, stack)
        if not problems:
            problems = _compare(config, located)
        if problems:
            raise ModelRefused(directory, problems)
        return assemble(config, lambda name: _copy(located[name].get_tensor(name), dtype))


def weights_digest(directory: Path) -> str:
    """64 hex digits over names, types, shapes and bytes in order of name: one file and its shards agree."""
    digest = hashlib.blake2b(digest_size=32)
    with ExitStack() as stack:
        located, problems = _locate(directory, stack)
        if problems:
            raise ModelRefused(directory, problems)
        for name in sorted(located):
            tensor = located[name].get_tensor(name).contiguous()
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(memoryview(tensor.view(-1).view(torch.uint8).numpy()))
    return digest.hexdigest()


def _locate(directory: Path, stack: ExitStack) -> tuple[dict[str, Any], list[str]]:
    """Name of a tensor -> the open file that holds it; and what is wrong with the files themselves."""
    wanted, problems = _files(directory)
    opened: dict[str, Any] = {}
    for file in wanted:
        try:
            opened[file] = stack.enter_context(safe_open(str(directory / file), framework="pt", device="cpu"))
        except FileNotFoundError:
            problems.append(f"{file} is missing")
        except (SafetensorError, OSError) as error:
            problems.append(f"{file} can't be read: {error}")
    located: dict[str, Any] = {}
    for handle in opened.values():
        for name in handle.keys():  # noqa: SIM118 (not a mapping)
            if name in located:
                problems.append(f"{name} is in two files")
            located[name] = handle
    listed = {name for names in wanted.values() for name in names}
    if not problems and listed:
        problems = [f"{name} is in the index and in no file" for name in sorted(listed - located.keys())]
    return located, problems


def _files(directory: Path) -> tuple[dict[str, list[str]], list[str]]:
    """File -> the tensors that the index puts there (none without an index)."""
    if not (directory / _INDEX).is_file():
        if (directory / _SINGLE).is_file():
            return {_SINGLE: []}, []
        pickles = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in directory.glob(pattern))
        found = f" ({', '.join(pickles)} would be unpickled, which runs code: convert it)" if pickles else ""
        return {}, [f"there is neither {_SINGLE} nor {_INDEX}{found}"]
    try:
        placed = json.loads((directory / _INDEX).read_text(encoding="utf-8"))["weight_map"]
        files: dict[str, list[str]] = {}
        for name, file in placed.items():
            files.setdefault(file, []).append(name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {}, [f"{_INDEX} has no usable weight_map: {error!r}"]
    outside = sorted(file for file in files if Path(file).name != file or not file.endswith(".safetensors"))
    if outside:
        return {}, [f"{_INDEX} names {file!r}, which is no .safetensors file of this directory" for file in outside]
    return files, []


def _compare(config: DecoderConfig, located: dict[str, Any]) -> list[str]:
    """Missing, unexpected, misshapen and non-float tensors, in order of name."""
    wanted = tensor_shapes(config)
    problems = [f"{name} is missing" for name in sorted(wanted.keys() - located.keys())]
    problems += [f"{name} is unexpected" for name in _unexpected(config, located.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & located.keys()):
        piece = located[name].get_slice(name)
        shape = tuple(piece.get_shape())
        if shape != wanted[name]:
            problems.append(f"{name} is {list(shape)}, the config says {list(wanted[name])}")
        if piece.get_dtype() not in _FLOATS:
            problems.append(f"{name} is {piece.get_dtype()}, which is no float")
    return problems


def _unexpected(config: DecoderConfig, names: Iterable[str]) -> list[str]:
    """Old checkpoints carry rope tables, and tied ones sometimes a copy of the embedding: both change nothing."""
    tied = {"lm_head.weight"} if config.tied else set()
    return sorted(name for name in names if not name.endswith("rotary_emb.inv_freq") and name not in tied)


def _copy(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Out of the mapped file: its pages would change under us if somebody wrote to it."""
    return tensor.to(dtype=dtype, copy=True)
