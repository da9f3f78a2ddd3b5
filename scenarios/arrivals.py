"""Arrival times and sizes of requests, as pure functions of seed, load and request number.

The nth request of a load depends only on (seed, load id, n) and the load's own keys. Another load, another time window
or a pause of the run changes nothing. Requests are generated lazily, so hours of load need no memory.
"""

import hashlib
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

from scenarios import traces
from scenarios.distributions import TokenDistribution
from scenarios.load import Cancel, Load
from scenarios.profiles import profile_of

PREFIXES: Final = 4  # number of common prefixes of a load with shared_prefix
FOREVER: Final = (0.0, math.inf)
_EIGHT_WORDS: Final = struct.Struct(">8Q").unpack
_UNIT: Final = 2.0**-53


class PromptPart(NamedTuple):
    """A part of a prompt: `tokens` tokens drawn in order from `seed`. Parts of one seed begin alike."""

    seed: int
    tokens: int


@dataclass(slots=True)
class PlannedRequest:
    """A planned request. It is not frozen, because that would double the cost of making a million of them.

    `cancel_at` is "queued", "prefill", "token N", "after TIME" or None; a request that is cancelled at a token always
    streams.
    `shared_prefix` names the prefix of `prefix_tokens` tokens that this request has in common with others.
    """

    n: int
    prompt_tokens: int
    output_tokens: int
    cancel_at: str | None
    stream: bool
    malformed: bool
    shared_prefix: str | None
    prefix_tokens: int
    prompt_seed: int
    parts: tuple[PromptPart, ...]
    """The parts of the prompt in order; their tokens add up to `prompt_tokens`."""


@dataclass(slots=True)
class Arrival(PlannedRequest):
    """A request of an open loop. It comes `t_s` seconds after the start of the load, independent of earlier replies."""

    t_s: float


@dataclass(slots=True)
class Turn(PlannedRequest):
    """A request of a closed-loop user, sent `think_s` seconds after the reply to its previous request."""

    user: int
    think_s: float


def arrivals(load: Load, seed: int, window_s: tuple[float, float] = FOREVER) -> Iterator[Arrival]:
    """The requests of an open-loop load with start <= t_s < end, in order of time."""
    start_s, end_s = window_s
    for n, t_s, row in _schedule(load, seed):
        if t_s >= end_s:
            return
        if t_s >= start_s:
            yield _arrival(load, seed, n, t_s, row)


def turns(load: Load, seed: int, user: int) -> Iterator[Turn]:
    """The endless sequence of requests of one closed-loop user (0 to users - 1)."""
    assert load.arrivals == "closed", f"load {load.id} is open-loop: see arrivals"
    assert load.users is not None
    assert 0 <= user < load.users, f"load {load.id} has no user {user}"
    rate = load.rate if isinstance(load.rate, float) else None
    for turn in count():
        # Users interleave by number, so n is unique in the load and independent of other users' speed.
        n = turn * load.users + user
        draws = _Draws(seed, load.id, n)
        think_s = -math.log1p(-draws.gap) / rate if rate is not None else 0.0
        yield Turn(*_request_fields(load, n, draws, None), user, think_s)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The predicted requests and tokens of a load in a time window, as means; rates are per second.

    A closed loop counts with the highest rate that its users can reach. Without a user rate all fields are None.
    """

    requests: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    rate_mean: float | None
    rate_max: float | None
    period_s: float | None


def forecast(load: Load, window_s: tuple[float, float]) -> Forecast:
    """Predict a load over a finite window (seconds). It reads the trace of a trace load once."""
    start_s, end_s = window_s
    span_s = end_s - start_s
    assert 0 < span_s < math.inf, "a forecast needs a finite window"
    if load.arrivals == "trace":
        return _forecast_trace(load, window_s)
    if load.arrivals == "closed":
        if not isinstance(load.rate, float):
            return Forecast(None, None, None, None, None, None)
        assert load.users is not None
        rate = load.rate * load.users
        requests, rate_max = rate * span_s, rate
    else:
        assert load.rate is not None
        profile = profile_of(load.arrivals, load.rate, load.period)
        requests, rate_max = profile.expected_by(end_s) - profile.expected_by(start_s), profile.rate_max
    period_s = load.period if load.arrivals in ("burst", "daily") else None
    prompt, output = _required(load.prompt_tokens).mean(), _required(load.output_tokens).mean()
    return Forecast(requests, requests * prompt, requests * output, requests / span_s, rate_max, period_s)


class _Draws:
    """The uniform numbers of one request.

    All come from one digest and each has its own bytes, so they are independent.
    """

    __slots__ = ("cancel", "gap", "malformed", "output", "prefix", "prompt", "prompt_seed", "stream")

    def __init__(self, seed: int, load_id: str, n: int) -> None:
        digest = hashlib.blake2b(f"{seed}/{load_id}/{n}".encode(), digest_size=64, person=b"seatrial-load").digest()
        gap, prompt, output, cancel, stream, malformed, prefix, prompt_seed = _EIGHT_WORDS(digest)
        self.gap = (gap >> 11) * _UNIT
        self.prompt = (prompt >> 11) * _UNIT
        self.output = (output >> 11) * _UNIT
        self.cancel = (cancel >> 11) * _UNIT
        self.stream = (stream >> 11) * _UNIT
        self.malformed = (malformed >> 11) * _UNIT
        self.prefix = (prefix >> 11) * _UNIT
        self.prompt_seed = prompt_seed >> 1  # fits a signed 64-bit column


_Row = traces.ReplayRow | None


def _schedule(load: Load, seed: int) -> Iterator[tuple[int, float, _Row]]:
    match load.arrivals:
        case "trace":
            for n, row in enumerate(traces.replay(load)):
                yield n, row.t_s, row
        case "constant":
            assert isinstance(load.rate, float)
            # A phase for each load keeps two loads of one rate from sending at the same instants for hours.
            phase = _Draws(seed, load.id, -1).gap
            for n in count():
                yield n, (n + phase) / load.rate, None
        case _:
            assert load.rate is not None, f"load {load.id} is a closed loop: see turns"
            profile = profile_of(load.arrivals, load.rate, load.period)
            reached = 0.0
            for n in count():
                reached -= math.log1p(-_Draws(seed, load.id, n).gap)
                yield n, profile.time_of(reached), None


def _arrival(load: Load, seed: int, n: int, t_s: float, row: _Row) -> Arrival:
    return Arrival(*_request_fields(load, n, _Draws(seed, load.id, n), row), t_s)


_RequestFields = tuple[int, int, int, str | None, bool, bool, str | None, int, int, tuple[PromptPart, ...]]


def _request_fields(load: Load, n: int, draws: _Draws, row: _Row) -> _RequestFields:
    """The fields of `PlannedRequest`, in order."""
    if row is None:
        prompt = _required(load.prompt_tokens).draw(draws.prompt)
        output = _required(load.output_tokens).draw(draws.output)
        shared, prefix_tokens, parts = _shared_prefix(load, draws, prompt)
    else:
        prompt, output = row.prompt_tokens, row.output_tokens
        shared, prefix_tokens, parts = _traced_prefix(load, draws, row)
    malformed = draws.malformed < load.malformed
    cancel_at = None if malformed else _cancel_at(load.cancel, draws.cancel)
    stream = draws.stream < load.stream or (cancel_at or "").startswith("token")
    return n, prompt, output, cancel_at, stream, malformed, shared, prefix_tokens, draws.prompt_seed, parts


def _shared_prefix(load: Load, draws: _Draws, prompt: int) -> tuple[str | None, int, tuple[PromptPart, ...]]:
    """The prompt of a drawn request: with probability `shared_prefix` its first half is a common prefix of the load."""
    if draws.prefix >= load.shared_prefix or prompt < 2:
        return None, 0, (PromptPart(draws.prompt_seed, prompt),)
    # Below the share, the draw divided by the share is uniform again.
    which = min(PREFIXES - 1, int(draws.prefix / load.shared_prefix * PREFIXES))
    name = f"{load.id}/{which}"
    return (
        name,
        prompt // 2,
        (PromptPart(seed_of(name), prompt // 2), PromptPart(draws.prompt_seed, prompt - prompt // 2)),
    )


def _traced_prefix(load: Load, draws: _Draws, row: traces.ReplayRow) -> tuple[str | None, int, tuple[PromptPart, ...]]:
    """The prompt of a trace row: one part for each hash id.

    Each lap has its own contents, else the cache would serve it.
    """
    if not row.hash_ids:
        return None, 0, (PromptPart(draws.prompt_seed, row.prompt_tokens),)
    parts, left = [], row.prompt_tokens
    for hash_id in row.hash_ids:
        tokens = min(row.block_tokens, left)
        if tokens > 0:
            parts.append(PromptPart(seed_of(f"{load.id}/{row.lap}/{hash_id}"), tokens))
        left -= tokens
    prefix_tokens = row.prompt_tokens - left
    if left > 0:
        parts.append(PromptPart(draws.prompt_seed, left))
    return f"{load.id}/{row.lap}/{row.hash_ids[0]}", prefix_tokens, tuple(parts)


def seed_of(name: str) -> int:
    """A seed that depends on the name alone and is equal in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=b"seatrial-seed").digest(), "big") >> 1


def _cancel_at(cancels: tuple[Cancel, ...], draw: float) -> str | None:
    for cancel in cancels:
        if draw < cancel.share:
            return cancel.at
        draw -= cancel.share
    return None


def _required(distribution: TokenDistribution | None) -> TokenDistribution:
    assert distribution is not None, "only a trace load may leave its tokens to the trace"
    return distribution


def _forecast_trace(load: Load, window_s: tuple[float, float]) -> Forecast:
    """Predict a trace load by counting its rows. The highest rate is that of the busiest ten seconds."""
    start_s, end_s = window_s
    requests = prompt = output = 0
    by_ten_s: dict[int, int] = {}
    for row in traces.replay(load):
        if row.t_s >= end_s:
            break
        if row.t_s >= start_s:
            requests, prompt, output = requests + 1, prompt + row.prompt_tokens, output + row.output_tokens
            by_ten_s[int(row.t_s // 10)] = by_ten_s.get(int(row.t_s // 10), 0) + 1
    rate_max = max(by_ten_s.values(), default=0) / 10
    return Forecast(requests, prompt, output, requests / (end_s - start_s), rate_max, None)
