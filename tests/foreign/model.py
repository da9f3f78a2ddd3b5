"""A model directory that any Hugging Face library can load offline: our default weights with a byte-level tokenizer."""

import json
import shutil
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from runtime.models.default import default_model

TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def write_model(directory: Path) -> Path:
    """One token for each byte, as our own server has it, so that both give the same text for the same prompt."""
    shutil.copytree(default_model(), directory)
    return _with_tokenizer(directory)


def write_wide_model(directory: Path) -> Path:
    """Random weights with heads of 32 dimensions: vLLM's attention on CPU has no smaller ones."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {
        "hidden_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 4,
        "bos_token_id": 256,
        "eos_token_id": 257,
    }
    config = LlamaConfig(vocab_size=258, intermediate_size=256, max_position_embeddings=1024, **shape)
    LlamaForCausalLM(config).save_pretrained(directory)
    return _with_tokenizer(directory)


def _with_tokenizer(directory: Path) -> Path:
    tokenizer = Tokenizer(models.BPE(vocab={letter: byte for byte, letter in byte_letters().items()}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<bos>", "<eos>"])
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory


def byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + at) for at, byte in enumerate(others)}
