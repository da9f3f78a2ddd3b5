"""The server's settings: one JSON file `{"server": {...}, "engine": {...}}`, and flags that win over it."""

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

ADMIN_TOKEN_ENV = "SEATRIAL_ADMIN_TOKEN"  # noqa: S105 - the variable's name, not its value


class ConfigError(ValueError):
    """What was given, what is allowed, what to do. The process ends with code 4."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Checked when made. Port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 0
    allow_host: bool = False
    """Permit a `host` that is not loopback."""
    admin: bool = False
    admin_port: int = 0
    outcomes: str | None = None
    """Path of outcomes.jsonl; None keeps no record."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """API key -> group; "env:NAME" takes the key from the environment. Empty: nobody needs a key, group is ""."""
    request_timeout_s: float = 600.0
    """The deadline of a request; a client may ask for less with X-Request-Timeout."""
    answer_grace_s: float = 5.0
    """How long after its deadline the server waits for the engine's own 504 before it gives one itself."""
    health_stall_s: float = 10.0
    """Open work and no progress for so long is unhealthy."""
    stream_events_max: int = 256
    """News that may wait for a client that does not read; one more cancels it."""
    send_max_s: float = 30.0
    """How long one write may wait for the client."""
    stop_grace_s: float = 5.0
    """How long open requests may go on after SIGTERM."""
    fatal_grace_s: float = 3.0
    """How long the last errors may take to reach their clients before the process exits 70."""
    body_bytes_max: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.allow_host and not is_loopback(self.host):
            raise ConfigError(f'host "{self.host}" is not loopback; give 127.0.0.1, or add --allow-host if you mean it')
        for name in ("port", "admin_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise ConfigError(f"{name} {getattr(self, name)} is no port; give 0 (a free one) to 65535")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith(("_s", "_max")) and not value > 0:
                raise ConfigError(f"{each.name} {value} is not allowed; give more than 0")
        if self.admin and not os.environ.get(ADMIN_TOKEN_ENV):
            raise ConfigError(f"--admin needs a token; set {ADMIN_TOKEN_ENV} in the environment")

    def groups(self) -> dict[str, str]:
        """API key -> group with the environment's keys filled in."""
        return {_key(name): group for name, group in self.keys.items()}


def read_config(path: str | None, **given: Any) -> tuple[ServerConfig, dict[str, Any]]:
    """The server's settings and the engine's table. `given` are flags; None means not given."""
    tables: dict[str, Any] = {}
    if path is not None:
        try:
            tables = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise ConfigError(f'config "{path}" can\'t be read: {error}') from error
        if not isinstance(tables, dict) or set(tables) - {"server", "engine"}:
            raise ConfigError(
                f'config "{path}": give one object with the tables "server" and "engine" and no other key'
            )
    return server_config(tables.get("server", {}), **given), dict(tables.get("engine", {}))


def server_config(table: Mapping[str, Any], **given: Any) -> ServerConfig:
    """From a JSON table; unknown keys and wrong types are refused, all at once."""
    known = {each.name: each for each in fields(ServerConfig)}
    problems = [f'unknown key "{name}"; known: {", ".join(known)}' for name in table if name not in known]
    for name, value in table.items():
        if name in known and not _fits(str(known[name].type), value):
            problems.append(f"{name}: {value!r} has the wrong type")
    if problems:
        raise ConfigError("config server: " + "; ".join(problems))
    flags = {name: value for name, value in given.items() if value is not None}
    return replace(ServerConfig(), **{**table, **flags})


def is_loopback(host: str) -> bool:
    """127.0.0.0/8, ::1 or the name localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _key(name: str) -> str:
    if not name.startswith("env:"):
        return name
    key = os.environ.get(name[4:])
    if not key:
        raise ConfigError(f'keys: "{name}" names a variable that is not set; set {name[4:]} in the environment')
    return key


def _fits(declared: str, value: object) -> bool:
    if "Mapping" in declared:
        return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    if "bool" in declared:
        return isinstance(value, bool)
    if "str" in declared:
        return isinstance(value, str) or (value is None and "None" in declared)
    if "float" in declared:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool)
