"""Weights come from safetensors only, and everything wrong with them is told at once."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from safetensors.torch import save_file

from faults import Catalogue, Faults, FaultSpec, Fire, When, parse_do
from runtime.models.config import ModelRefused, read_config
from runtime.models.default import default_model
from runtime.models.loader import check_files, load_weights, weights_digest
from runtime.models.points import WEIGHTS_READ
from runtime.models.weights import tensor_shapes, weights_bytes
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
    assert ours.layers[1].qkv.shape == (32, 32 + 2 * 16)
    assert torch.equal(ours.layers[1].qkv.t()[:32], every["model.layers.1.self_attn.q_proj.weight"])
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


TABLE = "model.layers.0.self_attn.rotary_emb.inv_freq"


def test_a_copy_of_the_tied_head_and_old_rope_tables_are_held_to_what_they_repeat(tmp_path: Path) -> None:
    every = tensors(write(tmp_path, tie_word_embeddings=True))
    every["lm_head.weight"] = every["model.embed_tokens.weight"].clone()
    every[TABLE] = (500000.0 ** -(torch.arange(0, 8, 2) / 8)).to(torch.bfloat16)
    save_file(every, str(tmp_path / "model.safetensors"))
    weights = load(tmp_path)
    assert weights.head.data_ptr() == weights.embedding.data_ptr()


def test_every_tensor_of_the_file_that_would_be_passed_over_is_refused_by_name(tmp_path: Path) -> None:
    every = tensors(write(tmp_path, tie_word_embeddings=True))
    every["lm_head.weight"] = every["model.embed_tokens.weight"] + 1
    every[TABLE] = 10_000.0 ** -(torch.arange(0, 8, 2) / 8)
    every["model.layers.2.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    save_file(every, str(tmp_path / "model.safetensors"))
    with pytest.raises(ModelRefused) as refused:
        check_files(tmp_path, read_config(tmp_path))
    assert set(refused.value.problems) == {
        "lm_head.weight differs from model.embed_tokens.weight, and tie_word_embeddings says that both are one",
        f"{TABLE} is not the rope table of rope_theta 500000 and head_dim 8",
        "model.layers.2.self_attn.rotary_emb.inv_freq is unexpected",
    }


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


def armed(do: str, **when: object) -> tuple[Faults, list[Fire]]:
    fires: list[Fire] = []
    faults = Faults(Catalogue([WEIGHTS_READ]), lambda: 0, fires.append, lambda state: None)
    faults.arm([FaultSpec(id="f", n=0, do=parse_do(do), when=When(**when))])  # type: ignore[arg-type]
    return faults, fires


def one_file(folder: Path) -> Path:
    save_file(tensors(write(folder)), str(folder / "model.safetensors"))
    return folder


def test_a_tensor_that_cannot_be_read_is_named_and_nothing_is_loaded(tmp_path: Path) -> None:
    folder = one_file(tmp_path)
    faults, fires = armed("weights.read: error", skip=2, times=1)
    with pytest.raises(ModelRefused, match=r"model\.layers\.0\.input_layernorm\.weight can't be read: injected"):
        load_weights(folder, read_config(folder), faults=faults, digest=weights_digest(folder))
    assert len(fires) == 1
    assert load_weights(folder, read_config(folder), faults=faults, digest=weights_digest(folder))


@given(st.integers(0, 20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_one_flipped_bit_anywhere_is_noticed_before_anything_is_served(tmp_path: Path, nth: int) -> None:
    folder = one_file(tmp_path)
    faults, fires = armed("weights.read: corrupt bit_flip", skip=nth, times=1)
    with pytest.raises(ModelRefused, match=r"read as [0-9a-f]{12}\.\.\., the files are [0-9a-f]{12}\.\.\.; try again"):
        load_weights(folder, read_config(folder), faults=faults, digest=weights_digest(folder))
    assert len(fires) == 1
    assert weights_digest(folder) == weights_digest(folder), "the files are whole"


def test_weights_lie_in_the_tensors_that_they_are_given(tmp_path: Path) -> None:
    folder, made = one_file(tmp_path), []

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        made.append(torch.full(shape, torch.nan, dtype=dtype))
        return made[-1]

    config = read_config(folder)
    weights = load_weights(folder, config, make=make)
    own = load(folder)
    assert torch.equal(weights.layers[1].gate_up, own.layers[1].gate_up)
    assert {weights.embedding.data_ptr(), weights.layers[0].qkv.data_ptr()} <= {each.data_ptr() for each in made}
    assert not any(each.isnan().any() for each in made), "every element is read"
    assert sum(each.nbytes for each in made) <= weights_bytes(config)


@pytest.mark.parametrize("rule", ["dtype", "address", "device", "layout"])
def test_weights_that_lie_wrong_after_loading_are_refused_by_name(tmp_path: Path, rule: str) -> None:
    directory = default_model()

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        made = {
            "dtype": lambda: torch.empty(shape, dtype=torch.float64),
            "address": lambda: torch.frombuffer(bytearray(4 * math.prod(shape) + 2), dtype=dtype, offset=2).view(shape),
            "device": lambda: torch.empty(shape, dtype=dtype, device="meta"),
            "layout": lambda: torch.empty((*shape, 2), dtype=dtype)[..., 0],
        }[rule]()
        return made if len(shape) == 2 else torch.empty(shape, dtype=dtype)

    with pytest.raises(ModelRefused) as refused:
        load_weights(directory, read_config(directory), make=make)
    assert f'tensor "model.embed_tokens.weight": {rule}: expected' in str(refused.value)
    assert "model.norm.weight" not in str(refused.value), "a vector was made as it should be"
