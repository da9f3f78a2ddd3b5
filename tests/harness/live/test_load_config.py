"""What the load process is told of a target: its dialect, and the politeness that is due to it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.live.load import load_config
from harness.load.breaker import UNLIMITED
from harness.load.config import LoadConfig, parse_config
from harness.load.preflight import Answer
from harness.plan.plan import make
from harness.provenance import Provenance
from runtime.points import catalogue
from scenarios.read import read_text

TEXT = """
schema = 1
name = "small"
means = "x"
phases = { warmup = { completed = 10 }, baseline = "20s", trial = "60s", recovery = "5s" }
load = [{ id = "chat", rate = "2/s" }]
"""
LIMITS = "[limits]\nrequests = 900\ntokens = 900000\nrate = '9/s'\nin_flight = 3\nwall = '1h'\n"


def config_of(text: str, **dialect: Any) -> LoadConfig:
    plan = make(read_text(TEXT + text), catalogue(), "r1", Provenance("0", "abc", False))
    target: Any = SimpleNamespace(url="http://127.0.0.1:8000", answer=Answer("m", "chat", **dialect))
    return parse_config(load_config(plan, target, Path("/nowhere")))


def at(url: str) -> str:
    return f"[target]\nkind = 'url'\nurl = '{url}'\n{LIMITS}"


def test_our_own_runtime_is_not_spared():
    config = config_of("")
    assert config.politeness == UNLIMITED
    assert config.canary is not None
    assert (config.canary.logprobs, config.canary.prompts) == (2, 8)


def test_limits_hold_for_our_own_runtime_too():
    politeness = config_of(LIMITS).politeness
    assert (politeness.requests_max, politeness.rate_max_per_s, politeness.ramp_from_per_s) == (900, 9.0, None)


def test_slow_server_on_this_machine_is_a_finding_and_another_one_is_spared():
    here, there = config_of(at("http://127.0.0.1:8000")).politeness, config_of(at("http://gpu.example:8000")).politeness
    assert (here.slow_factor_max, there.slow_factor_max) == (None, 5.0)
    for politeness in (here, there):
        assert (politeness.ramp_from_per_s, politeness.bad_share_max, politeness.in_flight_max) == (1.0, 0.5, 3)


def test_foreign_server_is_asked_for_no_log_probabilities_and_spoken_to_in_its_dialect():
    config = config_of(at("http://127.0.0.1:8000"), wants_done=False, leave_out=("seed",))
    assert (config.wants_done, config.leave_out) == (False, ("seed",))
    assert config.canary is not None
    assert config.canary.logprobs == 0


@pytest.mark.parametrize(("every", "prompts"), [("1s", 8), ("2s", 5), ("5s", 2), ("10s", 1)])
def test_every_canary_prompt_comes_twice_in_the_baseline_that_is_its_reference(every: str, prompts: int):
    canary = config_of(at("http://127.0.0.1:8000") + f"[canary]\nevery = '{every}'\n").canary
    assert canary is not None
    assert canary.prompts == prompts
