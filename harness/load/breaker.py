"""Limits the load on a foreign server: it starts at 1/s, honours Retry-After, and stops when the server degrades.

Times are arguments. A target of our own has no limits, because breaking it is the purpose.
"""

from collections import deque
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from harness.plan.canary import AboveZero, Positive
from scenarios.rules_target import is_remote
from scenarios.schema import Scenario


class Politeness(BaseModel):
    """Limits of a breaker. None switches a limit off; the defaults are those for a foreign target."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ramp_from_per_s: AboveZero | None = 1.0
    ramp_doubling_s: AboveZero = 10.0  # the permitted rate doubles in this time
    honour_retry_after: bool = True
    window: Positive = 50  # replies that the two limits below consider
    bad_share_max: Annotated[float, Field(ge=0, le=1)] | None = 0.5  # share of 5xx, 429 and failed connections
    slow_factor_max: AboveZero | None = 5.0  # median reply time of the window over that of the first window
    requests_max: Positive | None = None
    tokens_max: Positive | None = None
    in_flight_max: Positive | None = None
    rate_max_per_s: AboveZero | None = None


UNLIMITED = Politeness(ramp_from_per_s=None, honour_retry_after=False, bad_share_max=None, slow_factor_max=None)


def politeness_of(scenario: Scenario) -> Politeness:
    """The scenario's limits, and the rules by which the load stops to protect the target.

    The built-in runtime is not protected. A server on this machine belongs to the user, so a slow reply is a finding
    and does not stop the load. Any other server is protected: the load stops when the server slows down.
    """
    limits = scenario.limits
    if scenario.target.kind == "builtin":
        protection = UNLIMITED
    else:
        protection = Politeness() if is_remote(scenario.target) else Politeness(slow_factor_max=None)
    return protection.model_copy(
        update={
            "requests_max": limits.requests,
            "tokens_max": limits.tokens,
            "in_flight_max": limits.in_flight,
            "rate_max_per_s": limits.rate,
        }
    )


class Breaker:
    """Permits each request before it is sent and records each reply.

    `stopped` is the reason why it stopped the load for good, "" while it has not. Calls come from one thread at a time.
    """

    def __init__(self, politeness: Politeness, start_ns: int) -> None:
        self.stopped = ""
        self.held_back = 0  # arrivals that were not permitted
        self._politeness = politeness
        self._start_ns = start_ns
        self._wait_until_ns = start_ns
        self._credit, self._credit_ns = 1.0, start_ns
        self._sent = 0
        self._tokens = 0
        self._bad: deque[bool] = deque(maxlen=politeness.window)
        self._slow_ns: deque[int] = deque(maxlen=politeness.window)
        self._first_median_ns: int | None = None

    def allows(self, now_ns: int, in_flight: int) -> bool:
        """True when a request may be sent now. A refusal counts in `held_back` and not as a dropped arrival."""
        if self.stopped or not self._allowed(now_ns, in_flight):
            self.held_back += 1
            return False
        self._sent += 1
        return True

    def record_reply(
        self, now_ns: int, bad: bool, took_ns: int | None, tokens: int, retry_after_s: float | None
    ) -> None:
        """Record a reply. `bad` is True for 5xx, 429 and lost connections; `took_ns` counts when it was good."""
        limits = self._politeness
        self._tokens += tokens
        if retry_after_s is not None and limits.honour_retry_after:
            self._wait_until_ns = max(self._wait_until_ns, now_ns + int(retry_after_s * 1e9))
        self._bad.append(bad)
        if took_ns is not None and not bad:
            self._slow_ns.append(took_ns)
        if len(self._bad) == limits.window and limits.bad_share_max is not None:
            share = sum(self._bad) / limits.window
            if share > limits.bad_share_max:
                self._stop(f"{share:.0%} of the last {limits.window} replies were 5xx, 429 or lost connections")
        if len(self._slow_ns) == limits.window and limits.slow_factor_max is not None:
            median_ns = sorted(self._slow_ns)[limits.window // 2]
            self._first_median_ns = self._first_median_ns or max(1, median_ns)
            if median_ns > limits.slow_factor_max * self._first_median_ns:
                self._stop(f"median reply {median_ns / 1e6:.0f} ms, at first {self._first_median_ns / 1e6:.0f} ms")

    def _allowed(self, now_ns: int, in_flight: int) -> bool:
        limits = self._politeness
        if limits.requests_max is not None and self._sent >= limits.requests_max:
            self._stop(f"limit of {limits.requests_max} requests reached")
            return False
        if limits.tokens_max is not None and self._tokens >= limits.tokens_max:
            self._stop(f"limit of {limits.tokens_max} tokens reached")
            return False
        if limits.in_flight_max is not None and in_flight >= limits.in_flight_max:
            return False
        if now_ns < self._wait_until_ns:
            return False
        rate_per_s = self._rate_per_s(now_ns)
        return rate_per_s is None or self._take_credit(now_ns, rate_per_s)

    def _rate_per_s(self, now_ns: int) -> float | None:
        """The permitted rate now: a ramp that doubles every `ramp_doubling_s` (at most 2**20 times), and the limit."""
        limits, ramp_per_s = self._politeness, None
        if limits.ramp_from_per_s is not None:
            doublings = min(20.0, (now_ns - self._start_ns) / 1e9 / limits.ramp_doubling_s)
            ramp_per_s = limits.ramp_from_per_s * 2.0**doublings
        return min((rate for rate in (ramp_per_s, limits.rate_max_per_s) if rate is not None), default=None)

    def _take_credit(self, now_ns: int, rate_per_s: float) -> bool:
        """Take one credit from a token bucket that holds one second of the rate."""
        earned = rate_per_s * (now_ns - self._credit_ns) / 1e9
        self._credit, self._credit_ns = min(max(1.0, rate_per_s), self._credit + earned), now_ns
        if self._credit < 1.0:
            return False
        self._credit -= 1.0
        return True

    def _stop(self, why: str) -> None:
        self.stopped = self.stopped or why
