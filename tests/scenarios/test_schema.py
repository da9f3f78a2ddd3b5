"""Schema 1 as it is frozen: its defaults, its normal form, and that a plan's scenario reads back."""

import json

import pytest
from pydantic import ValidationError

from scenarios.distributions import Constant, Uniform
from scenarios.read import read_text
from scenarios.schema import Scenario
from tests.scenarios.documents import SOUND

FULL = """\
schema = 1
name = "full"
means = "everything at once"
seed = 3
target = { knobs = { kv_blocks = 512, fast = true }, groups = [{ name = "a", guarantee = "60%", key_env = "KEY" }] }
phases = { warmup = { completed = 10 }, baseline = "1.5m", trial = { completed = 600 }, quiesce = { every = "5m" } }
abort = ["errors.outside  >  20% for 2m"]
load = [
  { id = "day", group = "a", arrivals = "daily", rate = "1/s..6/s", period = "40m" },
  { id = "users", arrivals = "closed", users = 4, rate = "0.5/s", cancel = [{ share = "5%", at = "token 3" }] },
  { id = "long", rate = "2/s", prompt_tokens = { lognormal = [300, 0.8], max = 1500 } },
  { id = "probe", probe = true, rate = "0.5/s" },
]
[[fault]]
id = "oom"
do = "kv.take:   oom"
when = { at = "250ms", every = "1h", for = "20s", space = "64KiB", probability = "10%" }
expect = { outcomes = ["ok", "refused"], victims = "all", recover = { completed = 100 } }
[[fault]]
id = "hang"
do = "device.launch: hang 20s"
when = { after = "oom.healed" }
[[check]]
that = "ttft.p99   < 800ms"
where = "oom"
[limits]
rate = "20/s"
wall = "1h"
"""


def read(text: str) -> Scenario:
    return read_text(text).scenario


def test_what_is_left_out_has_the_frozen_defaults() -> None:
    plain = read(SOUND).model_dump(mode="json")
    assert plain["seed"] == 0
    assert plain["drive"] == "live"
    assert plain["target"]["kind"] == "builtin"
    assert plain["target"]["ready_max"] == 120.0
    assert plain["phases"] == {
        "warmup": {"completed": 100, "max": 120.0},
        "baseline": 15.0,
        "trial": 60.0,
        "quiesce": None,
        "recovery": 30.0,
        "drain_max": 30.0,
        "fresh": 0.0,
    }
    load = plain["load"][0]
    assert load["arrivals"] == "poisson"
    assert (load["prompt_tokens"], load["output_tokens"]) == ([20, 400], [4, 64])
    assert (load["shared_prefix"], load["stream"], load["malformed"]) == (0.0, 1.0, 0.0)
    assert (load["timeout"], load["in_flight_max"], load["probe"], load["cancel"]) == (60.0, 256, False, [])
    assert plain["canary"] == {"every": 5.0, "reference": "auto", "compared_min": 0.9}
    assert plain["limits"]["disk"] == 4 * 2**30
    assert plain["fault"] == plain["check"] == plain["abort"] == []


def test_a_fault_left_alone_has_the_frozen_defaults() -> None:
    plain = read(SOUND + '[[fault]]\nid = "a"\ndo = "kv.take: oom"\n').model_dump(mode="json")["fault"][0]
    assert plain["place"] == "before"
    assert plain["when"] == {
        "at": None,
        "after": None,
        "every": None,
        "for": None,
        "skip": 0,
        "times": 1,
        "interval": 1,
        "probability": 1.0,
        "space": 0,
    }
    assert (plain["persist"], plain["fired_min"], plain["ttl"]) == (False, 1, 60.0)
    assert plain["expect"] == {"outcomes": ["ok"], "victims": "hit", "marks": [], "recover": 30.0}


def test_values_come_out_as_plain_seconds_bytes_and_rates_under_the_files_own_keys() -> None:
    plain = read(FULL).model_dump(mode="json")
    assert plain["phases"]["baseline"] == 90.0
    assert plain["phases"]["trial"] == {"completed": 600, "max": 3600.0}
    assert plain["load"][0]["rate"] == [1.0, 6.0]
    assert plain["load"][1]["rate"] == 0.5
    assert plain["load"][1]["cancel"] == [{"share": 0.05, "at": "token 3"}]
    assert plain["load"][2]["prompt_tokens"] == {"lognormal": [300.0, 0.8], "max": 1500}
    oom = plain["fault"][0]
    assert oom["do"] == "kv.take: oom"
    assert (oom["when"]["at"], oom["when"]["for"], oom["when"]["space"], oom["when"]["probability"]) == (
        0.25,
        20,
        65536,
        0.1,
    )
    assert oom["ttl"] == 80.0
    assert plain["limits"]["rate"] == 20.0
    assert plain["check"][0]["that"] == "ttft.p99 < 800ms"
    assert plain["check"][0]["parsed"] == {"metric": "ttft", "stat": "p99", "op": "<", "value": 0.8, "unit": "s"}
    assert plain["abort"] == ["errors.outside > 20% for 2m"]


@pytest.mark.parametrize("text", [SOUND, FULL])
def test_the_scenario_of_a_plan_reads_back_equal(text: str) -> None:
    scenario = read(text)
    assert Scenario.from_plain(json.loads(json.dumps(scenario.model_dump(mode="json")))) == scenario


def test_numbers_without_a_unit_are_only_taken_from_a_plan() -> None:
    plain = read(SOUND).model_dump(mode="json")
    with pytest.raises(ValidationError, match="a time is a number and its unit"):
        Scenario.model_validate(plain)


def test_a_probe_is_constant_in_rate_and_size_without_being_told() -> None:
    probe = read(FULL).load_named("probe")
    assert (probe.arrivals, probe.prompt_tokens, probe.output_tokens) == ("constant", Constant(64), Constant(16))


def test_a_trace_load_leaves_its_tokens_to_the_trace_unless_they_are_clamped() -> None:
    text = SOUND.replace('rate = "2/s"', 'arrivals = "trace", trace = { file = "t.csv" }, output_tokens = [1, 64]')
    load = read(text).load[0]
    assert (load.prompt_tokens, load.output_tokens) == (None, Uniform(1, 64))


def test_a_scenario_cannot_be_changed() -> None:
    scenario = read(SOUND)
    with pytest.raises(ValidationError, match="frozen"):
        scenario.seed = 5
