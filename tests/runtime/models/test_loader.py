"""Weights come from safetensors only, and everything wrong with them is told at once."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from runtime.models.config import ModelRefused, read_config
from runtime.models.loader import load_weights, weights_digest
from runtime.models.weights import tensor_shapes
from tests.runtime.models.test_config import write


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    shapes = tensor_shapes(read_config(folder))
    return {name: torch.full(shape, float(index)) for index, (name, shape) in enumerate(shapes.items())}


def load(folder: Path) -> Any:
    return load_weights(folder, read_config(folder))


def save_sharded(folder: Path, every: dict[str, torch.Tensor]) -> None:
    names = sorted(every)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: every[name] for name in part}, str(folder / file))
    placed = {name: file for file, part in shards.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))


def test_one_file_and_shards_give_the_same_weights_and_digest(tmp_path: Path) -> None:
    single, sharded = tmp_path / "single", tmp_path / "sharded"
    for folder in (single, sharded):
        folder.mkdir()
        write(folder)
    every = tensors(single)
    save_file(every, str(single / "model.safetensors"))
    save_sharded(sharded, every)
    ours, theirs = load(single), load(sharded)
    assert torch.equal(ours.layers[1].qkv, theirs.layers[1].qkv)
    assert ours.layers[1].qkv.shape == (32 + 2 * 16, 32)
    assert torch.equal(ours.layers[1].qkv[:32], every["model.layers.1.self_attn.q_proj.weight"])
    assert weights_digest(single) == weights_digest(sharded)
    every["model.norm.weight"][3] += 1
    save_file(every, str(single / "model.safetensors"))
    assert weights_digest(single) != weights_digest(sharded)


def test_missing_unexpected_misshapen_and_integer_tensors_are_all_told_at_once(tmp_path: Path) -> None:
    every = tensors(write(tmp_path))
    del every["model.norm.weight"]
    every["model.extra.weight"] = torch.zeros(2)
    every["lm_head.weight"] = torch.zeros(5, 5)
    every["model.layers.0.mlp.up_proj.weight"] = every["model.layers.0.mlp.up_proj.weight"].to(torch.int32)
    save_file(every, str(tmp_path / "model.safetensors"))
    with pytest.raises(ModelRefused) as refused:
        load(tmp_path)
    assert set(refused.value.problems) == {
        "model.norm.weight is missing",
        "model.extra.weight is unexpected",
        "lm_head.weight is [5, 5], the config says [100, 32]",
        "model.layers.0.mlp.up_proj.weight is I32, which is no float",
    }


def test_tied_weights_share_one_tensor_and_old_rope_tables_are_passed_over(tmp_path: Path) -> None:
    every = tensors(write(tmp_path, tie_word_embeddings=True))
    every["lm_head.weight"] = every["model.embed_tokens.weight"].clone()
    every["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    save_file(every, str(tmp_path / "model.safetensors"))
    weights = load(tmp_path)
    assert weights.head is weights.embedding


def test_half_precision_is_read_as_float32(tmp_path: Path) -> None:
    every = {name: tensor.to(torch.bfloat16) for name, tensor in tensors(write(tmp_path)).items()}
    save_file(every, str(tmp_path / "model.safetensors"))
    assert load(tmp_path).embedding.dtype == torch.float32


class _Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was opened",))


def test_a_pickle_is_named_and_never_opened(tmp_path: Path) -> None:
    (write(tmp_path) / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(ModelRefused, match=r"pytorch_model\.bin would be unpickled"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ("{", "no usable weight_map"),
        ('{"weight_map": 3}', "no usable weight_map"),
        ('{"weight_map": {"x": "../up.safetensors"}}', "no .safetensors file of this directory"),
        ('{"weight_map": {"x": "model.bin"}}', "no .safetensors file of this directory"),
        ('{"weight_map": {"x": "gone.safetensors"}}', "gone.safetensors is missing"),
    ],
)
def test_a_bad_index_is_refused(tmp_path: Path, index: str, told: str) -> None:
    (write(tmp_path) / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelRefused) as refused:
        load(tmp_path)
    assert told in str(refused.value)


def test_a_tensor_that_only_the_index_knows_is_told(tmp_path: Path) -> None:
    save_sharded(write(tmp_path), tensors(tmp_path))
    path = tmp_path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["ghost"] = "a.safetensors"
    path.write_text(json.dumps(index))
    with pytest.raises(ModelRefused, match="ghost is in the index and in no file"):
        load(tmp_path)


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    save_file(tensors(write(tmp_path)), str(tmp_path / "model.safetensors"))
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelRefused, match=r"model\.safetensors can't be read"):
        load(tmp_path)
