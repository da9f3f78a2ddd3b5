"""Which targets a run may load, and which program it may start: both need somebody's word, never a file's."""

import shlex
from collections.abc import Collection
from urllib.parse import urlsplit

from harness.report.sanitise import terminal
from scenarios.schema import Scenario

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def refused_target(scenario: Scenario, allow_hosts: Collection[str], *, allow_command: bool) -> str | None:
    """Why this scenario's target must not be loaded or started, with the cure; None when it may."""
    return refused_host(scenario, allow_hosts) or refused_command(scenario, allow_command=allow_command)


def refused_host(scenario: Scenario, allowed: Collection[str]) -> str | None:
    """Load goes to this machine, unless somebody typed out where else it may go."""
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
    return f"{place} is not this machine; add --allow-host {place} if it is yours to load"


def refused_command(scenario: Scenario, *, allow_command: bool) -> str | None:
    """A scenario that was kept in a run directory may come from a stranger: its program needs permission."""
    if scenario.target.kind != "command" or allow_command:
        return None
    # In full and on one line: what is cut off or looks like a line of ours could hide what the program does.
    shown = terminal(shlex.join(scenario.target.command)).replace("\n", "\\n").replace("\t", "\\t")
    return (
        f"scenario {terminal(scenario.name)} would start a program: {shown}\n"
        "  A run directory may come from a stranger. Read the command; if it may run, add --allow-command."
    )
