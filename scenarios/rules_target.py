"""Rules between the keys of a target, and the limits that a target on another machine requires."""

import ipaddress
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import SplitResult, urlsplit

from scenarios.positions import Path
from scenarios.pydantic_errors import BrokenRule
from scenarios.schema import Scenario
from scenarios.target import Target

_LIMITS = ("requests", "tokens", "rate", "in_flight", "wall")


def broken_rules(scenario: Scenario) -> Iterator[BrokenRule]:
    target = scenario.target
    yield from _kind(target)
    for key in ("url", "metrics"):
        if (url := getattr(target, key)) is not None:
            yield from _url(url, ("target", key))
    yield from _shares(target)
    if scenario.drive == "virtual" and target.kind != "builtin":
        rule = "virtual time drives our own engine; this target has a clock of its own"
        yield BrokenRule(("drive",), rule, 'write drive = "live"', about=(("target", "kind"),))
    if scenario.phases.fresh and target.kind == "url":
        rule = "a target that we did not start cannot be started again"
        yield BrokenRule(("phases", "fresh"), rule, 'leave it out, or use kind = "command"', (("target", "kind"),))
    unset = [key for key in _LIMITS if getattr(scenario.limits, key) is None]
    if unset and is_remote(target):
        where: Path = ("limits",) if len(unset) < len(_LIMITS) else ("target", "url" if target.url else "metrics")
        about: tuple[Path, ...] = (("target", "kind"), *(("limits", key) for key in unset))
        rule = f"a target that is not on this machine needs all limits; missing: {', '.join(unset)}"
        yield BrokenRule(where, rule, f"add {unset[0]} = ... to [limits]; `seatrial plan` prints the bill", about)


def is_remote(target: Target) -> bool:
    """True when an address of the target lies outside this machine."""
    urls = [url for url in (target.url, target.metrics) if url is not None]
    hosts = [parts.hostname for url in urls if (parts := _split(url)) is not None and parts.hostname]
    return any(not is_loopback(host) for host in hosts)


def is_loopback(host: str) -> bool:
    """True when a host is this machine: localhost or a loopback address. Other names are not resolved."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _kind(target: Target) -> Iterator[BrokenRule]:
    about: tuple[Path, ...] = (("target", "kind"),)
    if target.kind == "url" and target.url is None:
        yield _needs("url", 'kind = "url" needs url', 'add url = "http://127.0.0.1:8000"')
    if target.kind == "command" and not target.command:
        yield _needs("command", 'kind = "command" needs command', 'add command = ["vllm", "serve", "..."]')
    elif target.kind == "command" and target.url is None and not any("{port}" in word for word in target.command):
        cure = 'add url = "http://127.0.0.1:8000", or write {port} in command'
        yield _needs("url", "nothing says where the command will serve", cure)
    if target.kind != "command" and target.command:
        rule = f'kind = "{target.kind}" runs no command'
        yield BrokenRule(("target", "command"), rule, 'write kind = "command"', about=about)
    if target.kind == "builtin":
        for key in ("url", "key_env", "metrics", "pid"):
            if getattr(target, key) is not None:
                rule = f'kind = "builtin" sets its own {key}'
                yield BrokenRule(("target", key), rule, f"leave {key} out", about=about)
    if target.kind == "command" and target.pid is not None:
        yield BrokenRule(("target", "pid"), "the pid of a command is known", "leave pid out", about=about)


def _needs(key: str, rule: str, remedy: str) -> BrokenRule:
    return BrokenRule(("target", key), rule, remedy, about=(("target", "kind"),), on_key=True)


def _url(url: str, path: Path) -> Iterator[BrokenRule]:
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        yield BrokenRule(
            path, "a URL starts with http:// or https:// and names a host", 'write "http://127.0.0.1:8000"'
        )
    elif parts.username or parts.password:
        rule = "no user or password in a URL: it would end up in reports"
        yield BrokenRule(path, rule, "name an environment variable in key_env")
    elif path[-1] == "url" and (parts.query or parts.fragment):
        yield BrokenRule(
            path, "the base URL has no ? or # part", f'write "{parts.scheme}://{parts.netloc}{parts.path}"'
        )


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
        return parts
    except ValueError:
        return None


def _shares(target: Target) -> Iterator[BrokenRule]:
    for index, group in enumerate(target.groups):
        path: Path = ("target", "groups", index)
        bounds = [("guarantee", group.guarantee), ("soft", group.soft), ("hard", group.hard)]
        given = [(key, share) for key, share in bounds if share is not None]
        for (lower, low), (upper, high) in pairwise(given):
            if low > high:
                rule = f"{lower} {low:g} lies above {upper} {high:g}"
                yield BrokenRule((*path, upper), rule, "keep guarantee <= soft <= hard", about=((*path, lower),))
    total = sum(group.guarantee for group in target.groups)
    if total > 1 + 1e-9:
        rule = f"the guarantees add up to {total:g}"
        about: tuple[Path, ...] = tuple(("target", "groups", index, "guarantee") for index in range(len(target.groups)))
        yield BrokenRule(("target", "groups"), rule, "keep the sum at 1 or less", about=about)
