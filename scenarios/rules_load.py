"""Rules between the keys of a load: the keys of each kind of arrivals, and the conditions of a probe."""

from collections.abc import Iterator
from typing import Final

from scenarios.distributions import Constant, Lognormal
from scenarios.load import Load
from scenarios.positions import Path
from scenarios.pydantic_errors import BrokenRule

# For each kind of arrivals: the keys that it needs, and the keys that it may have. Other keys are refused.
_KEYS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "constant": (("rate",), ()),
    "poisson": (("rate",), ()),
    "ramp": (("rate", "period"), ()),
    "burst": (("rate", "period"), ()),
    "daily": (("rate", "period"), ()),
    "trace": (("trace",), ()),
    "closed": (("users",), ("rate",)),
}
_EXAMPLES: Final = {
    "rate": 'rate = "2/s"',
    "period": 'period = "10m"',
    "trace": 'trace = { file = "azure_llm_2023_code.csv" }',
    "users": "users = 8",
}


def broken_rules(load: Load, path: Path) -> Iterator[BrokenRule]:
    yield from _keys(load, path)
    yield from _rate(load, path)
    yield from _tokens(load, path)
    shares = sum(cancel.share for cancel in load.cancel)
    if shares > 1 + 1e-9:
        yield BrokenRule((*path, "cancel"), f"the shares add up to {shares:g}", "keep the sum at 1 or less")
    if load.probe:
        yield from _probe(load, path)


def _keys(load: Load, path: Path) -> Iterator[BrokenRule]:
    needed, optional = _KEYS[load.arrivals]
    about = ((*path, "arrivals"),)
    for key, example in _EXAMPLES.items():
        given = getattr(load, key) is not None
        if key in needed and not given:
            if key == "rate" and load.arrivals in ("ramp", "burst", "daily"):
                example = 'rate = "1/s..6/s"'
            yield BrokenRule(
                (*path, key), f'arrivals = "{load.arrivals}" needs {key}', f"add {example}", about=about, on_key=True
            )
        if given and key not in needed and key not in optional:
            users = [name for name, (needs, may) in _KEYS.items() if key in needs or key in may]
            cure = f"leave it out; it goes with {', '.join(users)}"
            if key == "rate":
                cure = "leave it out; trace.time_scale changes the speed"
            yield BrokenRule((*path, key), f'{key} means nothing with arrivals = "{load.arrivals}"', cure, about=about)


def _rate(load: Load, path: Path) -> Iterator[BrokenRule]:
    ranged = isinstance(load.rate, tuple)
    wants_range = load.arrivals in ("ramp", "burst", "daily")
    if load.rate is None or load.arrivals == "trace" or ranged == wants_range:
        return
    about = ((*path, "arrivals"),)
    if wants_range:
        rule = f'arrivals = "{load.arrivals}" goes from a low to a high rate'
        yield BrokenRule((*path, "rate"), rule, f'write "0/s..{load.rate:g}/s"', about=about)
    else:
        rule = f'arrivals = "{load.arrivals}" has one rate'
        yield BrokenRule(
            (*path, "rate"), rule, 'write "2/s", or use arrivals = "ramp", "burst" or "daily"', about=about
        )


def _tokens(load: Load, path: Path) -> Iterator[BrokenRule]:
    if load.arrivals != "trace":
        return
    for key in ("prompt_tokens", "output_tokens"):
        if isinstance(getattr(load, key), Constant | Lognormal):
            yield BrokenRule(
                (*path, key),
                "a trace says the tokens; here [low, high] clamps them",
                "write [1, 1000]",
                about=((*path, "arrivals"),),
            )
    if load.shared_prefix > 0:
        rule, cure = "a trace brings its own shared prefixes", "leave shared_prefix out"
        yield BrokenRule((*path, "shared_prefix"), rule, cure, about=((*path, "arrivals"),))


def _probe(load: Load, path: Path) -> Iterator[BrokenRule]:
    """The requests of a probe must be alike, because their latency is compared over hours."""
    if load.arrivals != "constant":
        yield BrokenRule((*path, "arrivals"), "a probe stream has a constant rate", 'write arrivals = "constant"')
    for key in ("prompt_tokens", "output_tokens"):
        if load.arrivals != "trace" and not isinstance(getattr(load, key), Constant):
            yield BrokenRule((*path, key), "a probe stream has requests of one size", f"write {key} = 64")
    for key, plain in (("cancel", ()), ("malformed", 0.0), ("shared_prefix", 0.0), ("stream", 1.0)):
        if getattr(load, key) != plain:
            yield BrokenRule((*path, key), "all requests of a probe stream are alike", f"leave {key} out")
