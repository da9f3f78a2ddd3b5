"""Load goes to this machine, unless somebody typed out where else it may go."""

from collections.abc import Collection
from urllib.parse import urlsplit

from scenarios.schema import Scenario

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def stranger(scenario: Scenario, allowed: Collection[str]) -> str | None:
    """Why this target must not be loaded, with the cure; None when it may."""
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
