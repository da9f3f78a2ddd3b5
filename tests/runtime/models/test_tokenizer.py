"""Text to ids and back, with and without a tokenizer.json, and conversations by template."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, models, pre_tokenizers

from runtime.core.errors import InvalidRequest
from runtime.models.config import ModelRefused
from runtime.models.tokenizer import BOS, EOS, ByteTokenizer, read_tokenizer
from tests.runtime.models.test_config import write

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
TALK = [{"role": "user", "content": "hé"}]


@given(st.text())
def test_bytes_round_trip_every_text(text: str) -> None:
    tokens = ByteTokenizer(260).encode(text)
    assert tokens[0] == BOS
    assert ByteTokenizer(260).decode(tokens) == text


def test_half_a_character_becomes_a_mark_and_never_an_error() -> None:
    tokenizer = ByteTokenizer(260)
    euro = list("€".encode())
    assert tokenizer.decode(euro[:2]) == "�"
    assert tokenizer.decode(euro) == "€"
    assert tokenizer.decode([65, EOS, 259, 66]) == "AB"


def test_a_directory_without_a_tokenizer_is_byte_level_if_its_vocabulary_allows(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(write(tmp_path, vocab_size=300, eos_token_id=None))
    assert (tokenizer.vocab_size, tokenizer.stop_tokens) == (300, frozenset([EOS]))
    assert tokenizer.decode(tokenizer.chat(TALK)) == "user: hé\nassistant:"
    with pytest.raises(ModelRefused, match="too small for bytes"):
        read_tokenizer(write(tmp_path, vocab_size=200))


def byte_level(folder: Path, vocabulary: int = 300) -> Path:
    """A real tokenizer.json: byte-level BPE without merges, <s> and </s> behind the bytes."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = RustTokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return write(folder, vocab_size=vocabulary, eos_token_id=257)


def test_a_tokenizer_file_is_read_and_its_specials_have_no_text(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(byte_level(tmp_path))
    tokens = tokenizer.encode("naïve €")
    assert tokenizer.decode([*tokens, 257]) == "naïve €"
    assert tokenizer.decode(tokens[:-1]).endswith("�")
    assert tokenizer.vocab_size == 300
    assert tokenizer.decode(tokenizer.chat(TALK)) == "user: hé\nassistant:"


def test_stop_tokens_come_from_both_configs(tmp_path: Path) -> None:
    (byte_level(tmp_path) / "generation_config.json").write_text('{"eos_token_id": [256, 257]}')
    assert read_tokenizer(tmp_path).stop_tokens == {256, 257}


@pytest.mark.parametrize("where", ["tokenizer_config.json", "chat_template.jinja", "named"])
def test_the_models_template_makes_the_prompt(tmp_path: Path, where: str) -> None:
    configured: dict[str, object] = {"bos_token": {"content": "<s>"}}
    if where == "chat_template.jinja":
        (tmp_path / where).write_text(TEMPLATE)
    else:
        named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": TEMPLATE}]
        configured["chat_template"] = named if where == "named" else TEMPLATE
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(configured))
    tokenizer = read_tokenizer(byte_level(tmp_path))
    tokens = tokenizer.chat(TALK)
    assert tokens[0] == 256
    assert tokenizer.decode(tokens) == "<user>hé<assistant>"
    with pytest.raises(InvalidRequest, match="no tools"):
        tokenizer.chat([{"role": "tool", "content": ""}])


@pytest.mark.parametrize(
    "escape", ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ cycler.__init__.__globals__.os }}"]
)
def test_a_template_can_reach_nothing_outside(tmp_path: Path, escape: str) -> None:
    (tmp_path / "chat_template.jinja").write_text(escape)
    with pytest.raises(InvalidRequest):
        read_tokenizer(byte_level(tmp_path)).chat(TALK)


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    byte_level(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{% for %}")
    with pytest.raises(ModelRefused, match="chat template"):
        read_tokenizer(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(ModelRefused, match="258 tokens, the model 257"):
        read_tokenizer(byte_level(tmp_path, vocabulary=257))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelRefused, match=r"tokenizer\.json can't be read"):
        read_tokenizer(tmp_path)
