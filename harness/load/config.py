"""CONFIG.json: the config of the load process, checked completely before the first request.

{"config": 1, "spool": "runs/x/requests.jsonl", "url": "http://127.0.0.1:8000", "model": "m", "seed": 7,
 "load": [...]}                      the `load` rows of plan.json's scenario, as they are
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from harness.load.breaker import UNLIMITED, Politeness
from harness.plan.canary import CanaryConfig
from runtime.config import ConfigProblems
from runtime.config_errors import problems
from scenarios.load import Load
from scenarios.types import PLAIN


class LoadConfig(BaseModel):
    """The config of one load process."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    config: Literal[1]
    """The version of this file that the load process reads."""
    spool: Annotated[Path, Field(strict=False)]
    url: str
    model: str
    seed: int
    loads: Annotated[tuple[Load, ...], Field(alias="load", strict=False)]
    run_id: str = ""
    api: Literal["chat", "completions"] = "completions"
    """The API of the target. Completions have exact prompt sizes, and base models have no chat template."""
    key_env: str | None = None
    """The name of the environment variable that holds the API key."""
    body: dict[str, Any] = {}
    """Extra fields of every request."""
    leave_out: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Fields of a request that the target refuses."""
    wants_done: bool = True
    """False for a target whose streams end without [DONE]."""
    canary: CanaryConfig | None = None
    politeness: Politeness = UNLIMITED

    @field_validator("url")
    @classmethod
    def _http(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url is {url!r}; give http://HOST:PORT or https://HOST")
        return url.rstrip("/")

    @field_validator("loads")
    @classmethod
    def _own_ids(cls, loads: tuple[Load, ...]) -> tuple[Load, ...]:
        ids = [load.id for load in loads]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice or "canary" in ids:
            wrong = "is taken by the canaries" if "canary" in ids else "stands twice"
            raise ValueError(f"load: the id {('canary' if 'canary' in ids else twice[0])!r} {wrong}; give another")
        return loads


def read_config(path: Path) -> LoadConfig:
    """Read a config. Raises ConfigProblems, or OSError when the file can't be read."""
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise ConfigProblems([f"{path}: not JSON: {error}"]) from error
    return parse_config(value)


def parse_config(value: object) -> LoadConfig:
    """Check a parsed JSON object. Raises ConfigProblems with all problems."""
    try:
        return LoadConfig.model_validate(value, context={PLAIN: True})
    except ValidationError as error:
        known = [field.alias or name for name, field in LoadConfig.model_fields.items()]
        raise ConfigProblems(problems(error, known)) from None
