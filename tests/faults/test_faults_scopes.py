"""Each key of a fault's scope, in a trial: the fault fires on what matches and on nothing else, and a value that no
crossing can have is refused before anything starts."""

import itertools
import time
from pathlib import Path

import pytest

from faults import FaultSpec, Scope, When, parse_do
from harness.load.config import parse_config
from harness.load.dispatch import schedule
from harness.load.run import LoadRun, Ports
from harness.load.spool import Spool
from scenarios.problems import ScenarioProblems
from tests.faults.trials.live import LiveTrial, run_live
from tests.faults.trials.virtual import Trial, run
from tests.runtime.server.conftest import Start, start  # noqa: F401 - a fixture

HEAD = """
schema = 1
name = "scopes"
means = "a fault hit what is outside of its scope, or nothing"
seed = 5
drive = "virtual"
phases = { warmup = { completed = 10 }, baseline = "2s", trial = "12s", recovery = "1s", drain_max = "8s" }
load = [
  { id = "one", rate = "10/s", prompt_tokens = [20, 200], output_tokens = [20, 60] },
  { id = "two", rate = "10/s", prompt_tokens = [20, 200], output_tokens = [20, 60] },
]
[target]
kind = "builtin"
knobs = { kv_blocks = 44, token_budget = 64, expected_output = 0.0, preemption = "swap", swap_blocks = 40 }
"""
FAULT = """
[[fault]]
id = "{id}"
do = "{do}"
{more}
when = {{ times = {times}, interval = 2 }}
expect = {{ outcomes = ["ok", "truncated", "refused", "http_error", "inband_error"], victims = "all" }}
"""
PHASED = {"take": "kv.take: oom", "launch": "device.launch: error", "preempt": "sched.preempt: force"}
POOLS, PLACES, PHASES = ("io", "activation", "workspace"), ("before", "in_flight", "after"), ("prefill", "decode")
FAULTS = {
    "none": ("server.stream: cut", ""),
    "load": ("server.stream: cut", 'scope = { load = "two" }'),
    "keys": ("server.stream: cut", 'scope = { load = "one", phase = "decode", group = "default" }'),
    "group": ("kv.take: oom", 'scope = { group = "default" }'),
    **{f"pool-{pool}": ("memory.alloc: oom", f'scope = {{ pool = "{pool}" }}') for pool in POOLS},
    **{f"place-{place}": ("device.launch: error", f'place = "{place}"') for place in PLACES},
    **{f"{name}-{phase}": (do, f'scope = {{ phase = "{phase}" }}') for name, do in PHASED.items() for phase in PHASES},
}


TIMES = 12


def scenario(do: str, more: str, id: str = "f", times: int = TIMES) -> str:
    return FAULT.format(id=id, do=do, more=more, times=times)


LIVE = {
    'drive = "virtual"': 'drive = "live"\ncanary = { reference = "self" }',
    'baseline = "2s", trial = "12s"': 'baseline = "2s", trial = "6s"',
    'rate = "10/s", prompt_tokens = [20, 200], output_tokens = [20, 60]': (
        'rate = "4/s", prompt_tokens = [20, 110], output_tokens = [8, 24]'
    ),
    "kv_blocks = 44": "kv_blocks = 9",
}
"""Fewer and shorter requests in fewer blocks: as crowded, and over in less time."""
LIVE_TIMES = {"none": TIMES, "group": TIMES}
"""Fires of a fault in the live trial, 4 where nothing is said: requests of both loads must be hit by these."""
LIVE_MARKS = [pytest.mark.slow, pytest.mark.soak, pytest.mark.live, pytest.mark.timeout(300)]
DRIVES = ["virtual", pytest.param("live", marks=LIVE_MARKS)]  # live in the nights: each claim holds in virtual time too
Ran = Trial | LiveTrial


@pytest.fixture(scope="module", params=DRIVES)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One trial with all of them: those of one point take turns, and each counts what matches it."""
    live = request.param == "live"
    text = HEAD + "".join(
        scenario(do, more, name, LIVE_TIMES.get(name, 4) if live else TIMES) for name, (do, more) in FAULTS.items()
    )
    folder = tmp_path_factory.mktemp("scopes")
    if not live:
        return run(text, folder)
    for virtual, there in LIVE.items():
        assert virtual in text
        text = text.replace(virtual, there)
    ran = run_live(text, folder)
    assert {ran.states[name] for name in ("answered", "alive", "invariants", "fired")} == {"PASS"}, ran.states
    return ran


def victims(ran: Ran, fault: str) -> set[tuple[str, str]]:
    """The (load, group) of the requests that were hit."""
    sql = "SELECT r.load, r.grp FROM fire f JOIN request r ON r.id = f.request WHERE f.fault = ?"
    return set(ran.rows(sql, fault))


def crossings(ran: Ran, fault: str) -> list[str]:
    """What the injector noted of each crossing that it broke; there is one at least."""
    found = [words for (words,) in ran.rows("SELECT evidence FROM fire WHERE fault = ?", fault)]
    assert found, f"{fault} never fired"
    return found


def test_without_a_scope_requests_of_every_load_are_hit(ran: Ran) -> None:
    assert victims(ran, "none") >= {("one", "default"), ("two", "default")}


def test_a_scope_of_a_load_hits_the_requests_of_that_load_only(ran: Ran) -> None:
    assert victims(ran, "load") == {("two", "default")}


def test_a_scope_of_the_default_group_hits_every_request_of_a_runtime_without_groups(ran: Ran) -> None:
    assert ran.rows("SELECT DISTINCT grp FROM fire WHERE fault = ?", "group") == [("default",)]
    assert {load for load, _ in victims(ran, "group")} >= {"one", "two"}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", PHASED)
def test_a_scope_of_a_phase_hits_crossings_in_that_phase_only(ran: Ran, name: str, phase: str) -> None:
    assert all(f"phase={phase}" in words for words in crossings(ran, f"{name}-{phase}"))


@pytest.mark.parametrize("pool", POOLS)
def test_a_scope_of_a_pool_hits_allocations_of_that_pool_only(ran: Ran, pool: str) -> None:
    assert all(f"pool={pool}" in words for words in crossings(ran, f"pool-{pool}"))


@pytest.mark.parametrize("place", PLACES)
def test_a_place_hits_crossings_at_that_place_only(ran: Ran, place: str) -> None:
    assert all(f"error {place} " in words for words in crossings(ran, f"place-{place}"))


def test_all_keys_of_a_scope_must_match(ran: Ran) -> None:
    assert victims(ran, "keys") == {("one", "default")}
    assert all("phase=decode" in words for words in crossings(ran, "keys"))


@pytest.mark.parametrize(
    ("do", "more", "place", "rule", "remedy"),
    [
        ("server.stream: cut", 'scope = { load = "tow" }', "fault[0].scope.load", 'no load "tow"', "two"),
        ("kv.take: oom", 'scope = { group = "chat" }', "fault[0].scope.group", '"chat"', "default"),
        ("kv.take: oom", 'scope = { phase = "queued" }', "fault[0].scope.phase", "", "decode"),
        ("kv.take: oom", 'scope = { pool = "io" }', "fault[0].scope.pool", 'never crossed with pool = "io"', "kv"),
        ("memory.alloc: oom", 'scope = { pool = "weight" }', "fault[0].scope.pool", "never crossed", "workspace"),
        ("memory.reset: drop", 'scope = { group = "default" }', "fault[0].scope.group", "does not pass group", "pool"),
        ("kv.take: oom", 'scope = { load = "one" }', "fault[0].scope.load", "does not pass load", "group"),
        (
            "memory.free: drop",
            'scope = { pool = "io", phase = "decode" }',
            "fault[0].scope",
            'shows pool = "io" and phase = "decode" together',
            "leave one",
        ),
        ("server.stream: cut", 'place = "after"', "fault[0].place", "not permitted", "before"),
        ("kv.take: oom", 'scope = { session = "s" }', "fault[0].scope.session", "is not supported yet", "leave it out"),
    ],
)
def test_a_scope_that_can_never_match_is_refused_with_its_place_and_a_remedy(
    tmp_path: Path, do: str, more: str, place: str, rule: str, remedy: str
) -> None:
    with pytest.raises(ScenarioProblems) as caught:
        run(HEAD + scenario(do, more), tmp_path)
    problem = next(each for each in caught.value.problems if each.key == place)
    assert rule in problem.rule
    assert remedy in f"{problem.rule} {problem.remedy}"


def test_our_own_load_is_hit_by_its_id_through_http(tmp_path: Path, start: Start) -> None:  # noqa: F811
    running = start()
    scope = Scope(load="two", group="default", phase="decode")
    spec = FaultSpec("f", 0, parse_do("server.stream: cut"), when=When(times=None), scope=scope)
    running.served.env.faults.arm([spec])
    loads = [{"id": name, "rate": 20.0, "prompt_tokens": 8, "output_tokens": 8} for name in ("one", "two")]
    raw = {"config": 1, "spool": str(tmp_path / "requests.jsonl"), "url": running.url, "model": "fake", "seed": 3}
    ports = Ports(time.monotonic_ns, time.sleep, lambda work: work())
    load = LoadRun(parse_config({**raw, "load": loads}), Spool(tmp_path / "requests.jsonl"), ports)
    outcomes: dict[str, str] = {}
    for due in itertools.islice(schedule(load.config), 12):
        planned = load.builder.load_request(due.load, due.row)
        outcomes[planned.request.id] = str(load.send(planned, 0))
    assert load.failure is None
    expected = {name: "ok" if name.startswith("one") else "truncated" for name in outcomes}
    assert outcomes == expected
    assert set(outcomes.values()) == {"ok", "truncated"}
    assert [row["request"] for row in running.rows("fire")] == [name for name in outcomes if name.startswith("two")]
