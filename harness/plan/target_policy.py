"""The targets that a run may load, and the program that it may start. The user permits both, never a file."""

import shlex
from collections.abc import Collection
from urllib.parse import urlsplit

from harness.report.sanitise import terminal
from scenarios.schema import Scenario

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def refused_target(scenario: Scenario, allow_hosts: Collection[str], *, allow_command: bool) -> str | None:
    """Return why the target must not be loaded or started, with the cure; None when both are permitted."""
    return refused_host(scenario, allow_hosts) or refused_command(scenario, allow_command=allow_command)


def refused_host(scenario: Scenario, allowed: Collection[str]) -> str | None:
    """Refuse a target that is neither loopback nor in `allowed` ("HOST:PORT")."""
    url = scenario.target.url
    if url is None:
        return None
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or not port:
        return f'target "{url}": give a URL such as http://127.0.0.1:8000'
    place = f"{parts.hostname}:{port}"
    if parts.hostname in LOOPBACK or place in allowed:
        return None
    return f"{place} is not this machine; add --allow-host {place} if you may put load on it"


def refused_command(scenario: Scenario, *, allow_command: bool) -> str | None:
    """Refuse a command target without permission, because a run directory may come from an unknown person."""
    if scenario.target.kind != "command" or allow_command:
        return None
    # The command is shown in full and on one line: a cut or a fake line of output could hide a part of it.
    shown = terminal(shlex.join(scenario.target.command)).replace("\n", "\\n").replace("\t", "\\t")
    return (
        f"scenario {terminal(scenario.name)} would start a program: {shown}\n"
        "  A run directory may come from someone else. Read the command; to permit it, add --allow-command."
    )
