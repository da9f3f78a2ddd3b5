"""What `transformers` says: the only file of these tests that imports it."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

transformers.utils.logging.disable_progress_bar()
VERSION = transformers.__version__


def shapes_of(config: dict[str, Any]) -> dict[str, list[int]]:
    """The tensors that `transformers` expects in the files of a model, by name."""
    with tempfile.TemporaryDirectory() as folder:
        made = _class(config)(_config(config, Path(folder)))
    tied = {"lm_head.weight"} if config.get("tie_word_embeddings") else set()
    return {name: list(value.shape) for name, value in sorted(made.state_dict().items()) if name not in tied}


def open_model(directory: Path) -> Any:
    """The model in float32, read by `transformers` from the files."""
    return transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    ).eval()


@torch.inference_mode()
def logits(model: Any, tokens: Sequence[int], last: int) -> torch.Tensor:
    """The logits [last, vocabulary] behind each of the last tokens, in one pass over the whole sequence."""
    found: torch.Tensor = model(torch.tensor([list(tokens)])).logits[0, -last:]
    return found


def warped(line: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """The shares [vocabulary] from which `transformers` draws."""
    scores = line[None]
    if temperature != 1.0:
        scores = transformers.TemperatureLogitsWarper(temperature)(None, scores)
    if top_p < 1.0:
        scores = transformers.TopPLogitsWarper(top_p)(None, scores)
    return scores[0].double().softmax(0)


def _class(config: dict[str, Any]) -> Any:
    return getattr(transformers, config["architectures"][0])


def _config(config: dict[str, Any], folder: Path) -> Any:
    (folder / "config.json").write_text(json.dumps(config))
    return transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
