"""Turns a conversation into one prompt, by the model's own Jinja template in a sandbox or by a plain default."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runtime.core.errors import InvalidRequest
from runtime.models.config import ModelRefused, read_table

Messages = Sequence[Mapping[str, str]]


def plain_chat(messages: Messages) -> str:
    """The prompt of models without a template: one line for each message, then "assistant:"."""
    return "".join(f"{message['role']}: {message['content']}\n" for message in messages) + "assistant:"


class Template:
    """A chat template. It has no clock (`strftime_now` is undefined), so equal conversations give equal prompts."""

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(source)
        self._names = dict(names)

    def render(self, messages: Messages) -> str:
        """The prompt. Raises InvalidRequest when the template refuses the conversation."""
        plain = [dict(message) for message in messages]
        try:
            return self._template.render(messages=plain, add_generation_prompt=True, **self._names)
        except TemplateError as error:
            text = f"the model's chat template refuses these messages: {error}"
            raise InvalidRequest(text, param="messages") from error


def read_template(directory: Path) -> Template | None:
    """The template in chat_template.jinja or tokenizer_config.json; None when neither has one.

    Raises ModelRefused when the template or tokenizer_config.json can't be read.
    """
    configured = read_table(directory, "tokenizer_config.json") or {}
    source = configured.get("chat_template")
    if isinstance(source, list):  # several by name
        source = next((each.get("template") for each in source if each.get("name") == "default"), None)
    if (directory / "chat_template.jinja").is_file():
        source = (directory / "chat_template.jinja").read_text(encoding="utf-8")
    if source is None:
        return None
    try:
        return Template(str(source), _special_names(configured))
    except TemplateError as error:
        raise ModelRefused(directory, [f"the chat template can't be read: {error}"]) from error


def _special_names(configured: Mapping[str, object]) -> dict[str, str]:
    names = {}
    for key in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = configured.get(key)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            names[key] = text
    return names


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
