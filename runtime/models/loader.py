"""Loads weights from safetensors, from one file or from shards with an index. A pickle is never opened.

index or model.safetensors -> name: file -> all names, shapes and types checked at once -> fused Weights
"""

import hashlib
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from faults import DisabledFaults, Faults, Kind
from faults.actions import flip_bit
from runtime.contract.spec import ITEM_BYTES, Contract, TensorSpec
from runtime.contract.validate import violations_of
from runtime.device.facts import TorchTensors
from runtime.device.torch_segments import Make, fresh
from runtime.models import rope
from runtime.models.config import DecoderConfig, ModelRefused
from runtime.models.points import WEIGHTS_READ
from runtime.models.weights import Weights, blank, tensor_shapes

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_FLOATS = {"F64", "F32", "F16", "BF16"}
_TABLE_RTOL = 0.01  # rope tables may be stored in bfloat16, of three digits


def load_weights(
    directory: Path,
    config: DecoderConfig,
    dtype: torch.dtype = torch.float32,
    *,
    make: Make = fresh,
    faults: Faults | DisabledFaults | None = None,
    digest: str | None = None,
) -> Weights:
    """The weights of `directory` as `dtype`, copied once, from the file into tensors that `make` makes.

    Raises ModelRefused when tensors are wrong (all are named at once), when one can't be read, or when the bytes that
    were read have another digest than `digest`, the `weights_digest` of the files.
    """
    with ExitStack() as stack:
        located = _accounted(directory, config, stack)
        weights, targets = blank(config, lambda shape: make(shape, dtype))
        read = hashlib.blake2b(digest_size=32)
        for name in sorted(located):
            tensor = _read(directory, located, name, faults)
            if digest is not None:
                _add(read, name, tensor)
            if name in targets:
                targets[name].copy_(tensor)
    _check_contract(directory, config, targets, dtype)
    if digest is not None and read.hexdigest() != digest:
        raise ModelRefused(
            directory,
            [f"its weights were read as {read.hexdigest()[:12]}..., the files are {digest[:12]}...; try again"],
        )
    return weights


def check_files(directory: Path, config: DecoderConfig) -> None:
    """Raises ModelRefused when `load_weights` would refuse a tensor of `directory`."""
    with ExitStack() as stack:
        _accounted(directory, config, stack)


def _accounted(directory: Path, config: DecoderConfig, stack: ExitStack) -> dict[str, Any]:
    """Maps each tensor's name to its open file. Each of them fills a weight or repeats what is known otherwise.

    Raises ModelRefused that names all others, and those that are missing.
    """
    located, problems = _locate(directory, stack)
    problems = problems or _compare(config, located)
    if problems:
        raise ModelRefused(directory, problems)
    return located


def _check_contract(directory: Path, config: DecoderConfig, targets: dict[str, Tensor], dtype: torch.dtype) -> None:
    """Checks the loaded tensors against the shapes, dtype and alignment that the config asks for."""
    kind, shapes, tensors = str(dtype).removeprefix("torch."), tensor_shapes(config), TorchTensors()
    specs = tuple(TensorSpec(name, shape, kind, alignment_bytes=ITEM_BYTES[kind]) for name, shape in shapes.items())
    facts = [tensors.facts(targets[name]) for name in shapes]
    if broken := violations_of(Contract("weights", specs), facts):
        raise ModelRefused(directory, [str(one) for one in broken])


def weights_digest(directory: Path) -> str:
    """64 hex digits over names, types, shapes and bytes in order of name: one file and its shards have equal digests.

    Raises ModelRefused when a file or a tensor can't be read.
    """
    digest = hashlib.blake2b(digest_size=32)
    with ExitStack() as stack:
        located, problems = _locate(directory, stack)
        if problems:
            raise ModelRefused(directory, problems)
        for name in sorted(located):
            _add(digest, name, _read(directory, located, name, None))
    return digest.hexdigest()


def _add(digest: "hashlib.blake2b", name: str, tensor: Tensor) -> None:
    digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    digest.update(_bytes_of(tensor.contiguous()))


def _bytes_of(tensor: Tensor) -> memoryview:
    array: Any = tensor.view(-1).view(torch.uint8).numpy()
    return memoryview(array)


def _read(directory: Path, located: dict[str, Any], name: str, faults: Faults | DisabledFaults | None) -> Tensor:
    """One tensor, still in the mapped file. The caller copies it at once, since another process may write the file."""
    try:
        tensor: Tensor = located[name].get_tensor(name)
        if faults is None or not faults.armed:
            return tensor
        effect = faults.fire(WEIGHTS_READ, size_bytes=tensor.nbytes)
    except (SafetensorError, OSError) as error:
        raise ModelRefused(directory, [f"{name} can't be read: {error}"]) from error
    if effect is not None and effect.kind is Kind.CORRUPT:
        tensor = tensor.clone()
        flip_bit(_bytes_of(tensor), effect)
    return tensor


def _locate(directory: Path, stack: ExitStack) -> tuple[dict[str, Any], list[str]]:
    """Maps each tensor's name to the open file that holds it, and lists the problems of the files themselves."""
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
    """Maps each file to the tensors that the index puts there (none without an index), and lists problems."""
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
    """Lists missing, unexpected, misshapen and non-float tensors, each kind in order of name."""
    wanted = tensor_shapes(config)
    problems = [f"{name} is missing" for name in sorted(wanted.keys() - located.keys())]
    surplus = ((name, _surplus(config, located, name)) for name in sorted(located.keys() - wanted.keys()))
    problems += [f"{name} {problem}" for name, problem in surplus if problem]
    for name in sorted(wanted.keys() & located.keys()):
        piece = located[name].get_slice(name)
        shape = tuple(piece.get_shape())
        if shape != wanted[name]:
            problems.append(f"{name} is {list(shape)}, the config says {list(wanted[name])}")
        if piece.get_dtype() not in _FLOATS:
            problems.append(f"{name} is {piece.get_dtype()}, which is no float")
    return problems


def _surplus(config: DecoderConfig, located: dict[str, Any], name: str) -> str | None:
    """The problem of a tensor that fills no weight. Two kinds have none, where they repeat what is known otherwise: the
    head of a tied model, and the rope table of each layer in old checkpoints."""
    if name == "lm_head.weight" and config.tied:
        source = "model.embed_tokens.weight"
        if source in located and torch.equal(located[name].get_tensor(name), located[source].get_tensor(source)):
            return None
        return f"differs from {source}, and tie_word_embeddings says that both are one"
    if name in {f"model.layers.{index}.self_attn.rotary_emb.inv_freq" for index in range(config.layers)}:
        table = located[name].get_tensor(name).float()
        ours = rope.unscaled_frequencies(config), rope.inverse_frequencies(config)
        if any(table.shape == own.shape and torch.allclose(table, own, rtol=_TABLE_RTOL, atol=0) for own in ours):
            return None
        return f"is not the rope table of rope_theta {config.rope.theta:g} and head_dim {config.head_dim}"
    return "is unexpected"
