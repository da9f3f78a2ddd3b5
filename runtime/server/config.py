"""The server's settings: one JSON file `{"server": {...}, "engine": {...}}`, and flags that override it."""

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from runtime.config_errors import problems

ADMIN_TOKEN_ENV = "SEATRIAL_ADMIN_TOKEN"  # noqa: S105 - the variable's name, not its value


class ConfigError(ValueError):
    """Settings can't be used; the text names value, rule and remedy. The process ends with code 4."""


Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]


class ServerConfig(BaseModel):
    """Settings of the server, checked when made. Port 0 takes a free port. `server_config` reads file and flags."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    allow_host: bool = False
    """Permit a `host` that is not loopback."""
    host: str = "127.0.0.1"
    port: Port = 0
    admin: bool = False
    admin_port: Port = 0
    outcomes: str | None = None
    """Path of the journal, outcomes.jsonl; None writes none."""
    keys: dict[str, str] = {}
    """API key -> group; "env:NAME" takes the key from the environment. Without keys all requests are in group
    "default"."""
    request_timeout_s: Seconds = 600.0
    """The deadline of a request; a client may ask for less with X-Request-Timeout."""
    answer_grace_s: Seconds = 5.0
    """How long after a request's deadline the server waits for the engine's 504 before it sends one itself."""
    health_stall_s: Seconds = 10.0
    """The server is unhealthy when requests are open and the engine makes no progress for so long."""
    stream_events_max: Count = 256
    """Outputs that may wait for a client that does not read; one more cancels the request."""
    send_max_s: Seconds = 30.0
    """How long one write may wait for the client."""
    stop_grace_s: Seconds = 5.0
    """How long open requests may go on after SIGTERM."""
    fatal_grace_s: Seconds = 3.0
    """How long the last errors may take to reach their clients before the process exits 70."""
    body_bytes_max: Count = 4 * 1024 * 1024

    @field_validator("host")
    @classmethod
    def _loopback(cls, host: str, info: ValidationInfo) -> str:
        # `allow_host` is checked first; when it is invalid, only that is reported.
        if not info.data.get("allow_host", True) and not is_loopback(host):
            raise ValueError(f'host "{host}" is not loopback; give 127.0.0.1, or add --allow-host if you mean it')
        return host

    @field_validator("admin")
    @classmethod
    def _token(cls, admin: bool) -> bool:
        if admin and not os.environ.get(ADMIN_TOKEN_ENV):
            raise ValueError(f"--admin needs a token; set {ADMIN_TOKEN_ENV} in the environment")
        return admin

    def groups(self) -> dict[str, str]:
        """API key -> group, with keys from the environment filled in. Raises ConfigError when a variable is not set."""
        return {_key(name): group for name, group in self.keys.items()}


def read_config(path: str | None, **given: Any) -> tuple[ServerConfig, dict[str, Any]]:
    """The server's settings and the engine's table. `given` are flags; None means not given. Raises ConfigError."""
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
    """The settings of a JSON table and of flags, which override it. Raises ConfigError with all problems at once."""
    flags = {name: value for name, value in given.items() if value is not None}
    try:
        return ServerConfig.model_validate({**table, **flags})
    except ValidationError as error:
        found = problems(error, ServerConfig.model_fields)
        raise ConfigError("config server: " + "; ".join(found)) from error


def is_loopback(host: str) -> bool:
    """True for 127.0.0.0/8, ::1 and the name localhost."""
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
