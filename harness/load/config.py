"""CONFIG.json: everything the load process is told, checked at once before anything is sent.

    {"config": 1, "spool": "runs/x/requests.jsonl", "url": "http://127.0.0.1:8000", "model": "m", "seed": 7,
     "load": [...]}                      the `load` rows of plan.json's scenario, as they are

Optional, with defaults in `LoadConfig` and `CanaryConfig`: run_id, api, api_of {load: api}, key_env, group_keys
{group: variable}, body {extra fields of every request}, leave_out [fields that the target refuses], wants_done (false:
its streams end without [DONE]), canary {...}, manners {...} (see breaker.py; absent: a target of our own), worker
{"index": 0, "of": 1}, web_port.
"""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from harness.load.breaker import UNLIMITED, Politeness
from harness.plan.canary import CanaryConfig
from scenarios.load import Load
from scenarios.types import PLAIN

CONFIG_VERSION = 1
APIS = ("chat", "completions")


class ConfigProblems(ValueError):
    """Everything wrong with a CONFIG, one line each."""


@dataclass(frozen=True)
class LoadConfig:
    """One load process. `worker_index` of `worker_of`: this process sends the rows whose number falls to it."""

    spool: Path
    url: str
    model: str
    seed: int
    loads: tuple[Load, ...]
    run_id: str = ""
    api: str = "completions"  # exact prompt sizes, and base models have no chat template
    api_of: dict[str, str] = field(default_factory=dict)
    key_env: str | None = None
    group_keys: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    leave_out: tuple[str, ...] = ()
    wants_done: bool = True
    canary: CanaryConfig | None = None
    manners: Politeness = UNLIMITED
    worker_index: int = 0
    worker_of: int = 1
    web_port: int | None = None

    def api_for(self, load_id: str) -> str:
        return self.api_of.get(load_id, self.api)

    def key_for(self, group: str | None) -> str | None:
        """Name of the variable with the key of a group; the target's own where the group has none."""
        return self.group_keys.get(group or "", self.key_env)


def read_config(path: Path) -> LoadConfig:
    """The config of a file. Raises ConfigProblems, or OSError when there is no such file."""
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise ConfigProblems(f"{path}: not JSON: {error}") from error
    return parse_config(value)


def parse_config(value: object) -> LoadConfig:
    """The config in a parsed JSON object. Raises ConfigProblems with all that is wrong."""
    if not isinstance(value, dict):
        raise ConfigProblems("the config must be a JSON object")
    given = dict(value)
    problems = _shape_problems(given)
    if given.pop("config", None) != CONFIG_VERSION:
        problems.append(f"config: this load process reads version {CONFIG_VERSION}")
    loads = _loads(given.pop("load", []), problems)
    worker = given.pop("worker", {"index": 0, "of": 1})
    canary = _record(CanaryConfig, "canary", given.pop("canary", None), problems)
    manners = _record(Politeness, "manners", given.pop("manners", None), problems)
    if not (isinstance(worker, dict) and 0 <= worker.get("index", -1) < worker.get("of", 0)):
        problems.append(f'worker: {worker!r} must be {{"index": i, "of": n}} with i below n')
    for name in sorted({given.get("api", "chat"), *given.get("api_of", {}).values()} - set(APIS)):
        problems.append(f"api: {name!r} is not one of {', '.join(APIS)}")
    if problems:
        raise ConfigProblems("\n".join(problems))
    return LoadConfig(
        **{**given, "spool": Path(given["spool"]), "url": given["url"].rstrip("/")}
        | {"leave_out": tuple(given.get("leave_out", ()))},
        loads=tuple(loads),
        canary=canary,
        manners=manners or UNLIMITED,
        worker_index=worker["index"],
        worker_of=worker["of"],
    )


def _shape_problems(given: dict[str, Any]) -> list[str]:
    known = {entry.name for entry in fields(LoadConfig)} - {"loads", "worker_index", "worker_of"}
    known |= {"config", "load", "worker"}
    problems = [f"{key}: unknown; known are {', '.join(sorted(known))}" for key in sorted(given.keys() - known)]
    for key, kind in (("spool", str), ("url", str), ("model", str), ("seed", int), ("load", list)):
        if not isinstance(given.get(key), kind):
            problems.append(f"{key}: required, of type {kind.__name__}")
    url = urlsplit(given["url"]) if isinstance(given.get("url"), str) else None
    if url is not None and (url.scheme not in ("http", "https") or not url.hostname):
        problems.append(f"url: {given['url']!r} must be http://HOST:PORT or https://HOST")
    return problems


def _loads(rows: object, problems: list[str]) -> list[Load]:
    loads: list[Load] = []
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        try:
            loads.append(Load.model_validate(row, context={PLAIN: True}))
        except ValidationError as error:
            problems += [f"load[{index}].{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    ids = [load.id for load in loads]
    problems += [f"load: two of id {name!r}" for name in sorted({name for name in ids if ids.count(name) > 1})]
    if "canary" in ids:
        problems.append("load: the id 'canary' is taken by the canaries")
    return loads


def _record(kind: type[Any], name: str, value: object, problems: list[str]) -> Any:
    """A dataclass from a JSON object; None stays None."""
    if value is None:
        return None
    if not isinstance(value, dict):
        problems.append(f"{name}: must be an object")
        return None
    unknown = value.keys() - {entry.name for entry in fields(kind)}
    if unknown:
        problems.append(f"{name}: unknown {', '.join(sorted(unknown))}")
        return None
    return kind(**value)
