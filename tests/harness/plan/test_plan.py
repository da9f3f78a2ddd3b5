import re
from pathlib import Path

import pytest

from assertions.plan_view import PlanView
from harness.plan.describe import describe
from harness.plan.plan import Plan, make
from harness.plan.target_policy import refused_host
from harness.provenance import Provenance
from runtime.points import catalogue
from scenarios import library
from scenarios.problems import ScenarioProblems
from scenarios.read import read_text
from tests.public_traces import public_traces

SMALL = """
schema = 1
name = "small"
means = "x"
phases = { warmup = { completed = 10 }, baseline = "5s", trial = "60s", recovery = "5s" }
load = [{ id = "chat", rate = "2/s" }]
"""


def plan_of(text: str) -> Plan:
    return make(read_text(text), catalogue(), "r1", Provenance("0", "abc", False))


@pytest.mark.parametrize("name", library.names())
def test_library_scenario_can_be_planned_and_its_judges_read_the_plan(name):
    plan = make(public_traces().scenario(name), catalogue(), "r1", Provenance("0", "abc", False))
    plan_view = PlanView.from_plan(plan.to_json())
    assert {"answered", "alive", "fired", "load"} <= set(plan_view.judges)
    assert all(len(line) <= 110 for line in describe(plan))


def test_what_no_engine_serves_yet_is_refused_by_name_and_place():
    text = SMALL + "target = { groups = [{ name = 'a', hard = 0.5 }] }\n"
    with pytest.raises(ScenarioProblems) as caught:
        plan_of(text)
    assert "target.groups.hard is not supported yet" in str(caught.value)


def test_fault_that_persists_is_planned_live_told_to_the_injector_and_said():
    plan = plan_of(SMALL + "[[fault]]\nid = 'f'\ndo = 'kv.take: oom'\npersist = true\n")
    assert plan.occurrences[0].spec.persist
    assert plan.to_json()["faults"][0]["persist"] is True
    assert PlanView.from_plan(plan.to_json()).faults[0].trigger.persist
    assert any("until healed, also after a restart" in line for line in describe(plan))


def test_what_needs_a_process_or_weights_is_refused_in_virtual_time_by_name():
    text = "drive = 'virtual'\n" + SMALL + "target = { model = 'm' }\n"
    text += "[[fault]]\nid = 'stays'\ndo = 'kv.take: oom'\npersist = true\n"
    text += "".join(f"[[fault]]\nid = 'f{n}'\ndo = 'device.launch: {do}'\n" for n, do in enumerate(("kill", "lost")))
    with pytest.raises(ScenarioProblems) as caught:
        plan_of(text)
    assert "target.model is not supported in virtual time" in str(caught.value)
    assert "fault.persist is not supported in virtual time" in str(caught.value)
    assert "device.launch: kill: it ends a server process" in str(caught.value)
    assert "device.launch: lost: it ends a server process" in str(caught.value)
    assert "pid" not in plan_of("drive = 'virtual'\n" + SMALL).capabilities


def test_fault_that_the_catalogue_does_not_permit_is_refused_before_anything_starts():
    with pytest.raises(ScenarioProblems) as caught:
        plan_of(SMALL + "[[fault]]\nid = 'f'\ndo = 'kv.take: oom'\nplace = 'after'\nscope = { load = 'chat' }\n")
    assert "not permitted" in str(caught.value)


def test_planned_point_is_refused_as_planned():
    with pytest.raises(ScenarioProblems, match="planned and not served yet"):
        plan_of(SMALL + "[[fault]]\nid = 'f'\ndo = 'graph.capture: fail'\n")


def test_fault_inside_a_server_that_is_not_ours_is_refused():
    text = SMALL + "[[fault]]\nid = 'f'\ndo = 'kv.take: oom'\n[target]\nkind = 'url'\nurl = 'http://127.0.0.1:1'\n"
    with pytest.raises(ScenarioProblems, match="needs the built-in runtime"):
        plan_of(text)


def test_wrong_knobs_are_refused_all_at_once():
    with pytest.raises(ScenarioProblems) as caught:
        plan_of(SMALL + "[target.knobs]\nkv_block = 3\nlate_s = 0\n")
    assert 'did you mean "kv_blocks"' in str(caught.value)
    assert "late_s is 0" in str(caught.value)


def test_check_that_can_not_be_decided_is_refused_with_its_cure():
    with pytest.raises(ScenarioProblems, match="can't be decided"):
        plan_of(SMALL + "[[check]]\nthat = 'ttft.p99 < 1s'\nload = 'chat'\n")


def test_every_becomes_occurrences_within_the_trial():
    plan = plan_of(SMALL + "[[fault]]\nid = 'f'\ndo = 'kv.take: oom'\nwhen = { at = '10s', every = '20s' }\n")
    assert [(each.spec.n, each.at_s) for each in plan.occurrences] == [(0, 10.0), (1, 30.0), (2, 50.0)]


def test_quiesce_points_cut_the_trial_into_whole_pieces():
    plan = plan_of(SMALL.replace('recovery = "5s"', 'recovery = "5s", quiesce = { every = "25s" }'))
    names = [(phase.name, phase.n) for phase in plan.phases]
    assert names == [
        ("warmup", 0), ("baseline", 0), ("trial", 0), ("quiesce", 0), ("trial", 1), ("quiesce", 1), ("trial", 2),
        ("recovery", 0), ("drain", 0),
    ]  # fmt: skip
    assert sum(phase.planned_s for phase in plan.phases if phase.name == "trial") == 60.0


def test_load_goes_to_loopback_or_to_what_was_typed_out():
    def at(url: str, *allowed: str) -> str | None:
        text = SMALL + f"[target]\nkind = 'url'\nurl = '{url}'\n[limits]\nrequests = 9\ntokens = 9\nrate = '1/s'\n"
        return refused_host(read_text(text + "in_flight = 1\nwall = '60s'\n").scenario, allowed)

    assert at("http://127.0.0.1:8000") is None
    assert at("http://[::1]:8000") is None
    assert "--allow-host example.org:8000" in (at("http://example.org:8000") or "")
    assert at("http://example.org:8000", "example.org:8000") is None
    assert at("http://example.org:8000", "example.org:80") is not None


LOOPBACK = """
[target]
kind = "url"
url = "http://127.0.0.1:8000"
"""


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("requests = 100", "requests = 100, and this plan sends about 16"),
        ("tokens = 900", "tokens = 900, and this plan needs about"),
        ("wall = '30s'", "wall = 30 s, and this plan takes about 7"),
        ("rate = '1/s'", "rate = 1/s, and the loads together send 2/s"),
    ],
)
def test_limit_that_is_sure_to_cut_the_run_short_is_refused_with_its_place(limits: str, said: str):
    with pytest.raises(ScenarioProblems) as caught:
        plan_of(SMALL + LOOPBACK + f"[limits]\n{limits}\n")
    assert said in str(caught.value)
    assert f"limits.{limits.partition(' ')[0]}" in str(caught.value)


def test_limits_with_room_are_kept():
    limits = "[limits]\nrequests = 300\ntokens = 90000\nrate = '3/s'\nin_flight = 4\nwall = '5m'\n"
    assert plan_of(SMALL + LOOPBACK + limits).cost.requests == pytest.approx(150 + 15, abs=3)


def test_server_seen_from_outside_has_what_it_shows_and_nothing_is_planned_that_nobody_could_decide():
    def states(more: str) -> dict[str, str]:
        return {need.judge: str(need.state) for need in plan_of(SMALL + LOOPBACK + more).needs}

    bare = states("")
    assert bare["reclamation"] == bare["invariants"] == bare["leak.rss_anon"] == "not_judged"
    assert bare["answered"] == bare["alive"] == bare["load"] == "planned"
    assert states("[canary]\nevery = '2s'\n")["tokens"] == "planned"
    assert states("[canary]\nevery = '4s'\n")["tokens"] == "not_judged"
    watched = states("metrics = 'http://127.0.0.1:8000/metrics'\npid = 1\n")
    assert watched["reclamation"] == "planned"
    assert watched["invariants"] == watched["leak.kv_live"] == "not_judged"


def trace_of(folder: Path, seconds: list[int]) -> str:
    """A trace load whose file has so many rows in each second."""
    stamps = [second + n / (rows + 1) for second, rows in enumerate(seconds) for n in range(rows)]
    lines = [f"2023-11-16 18:{int(t_s) // 60:02}:{t_s % 60:010.7f},20,5" for t_s in stamps]
    (folder / "trace.csv").write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]) + "\n")
    return f"{{ id = 'flood', arrivals = 'trace', trace = {{ file = '{folder / 'trace.csv'}' }} }}"


def test_trace_is_counted_second_by_second_so_that_a_quantile_of_its_replay_can_be_planned(tmp_path: Path):
    seconds = [8, 0, 0, 16] * 75
    text = SMALL.replace('{ id = "chat", rate = "2/s" }', trace_of(tmp_path, seconds))
    plan = plan_of(text + "[[check]]\nthat = 'e2e.p95 < 2s'\n")
    recorded = plan.to_json()["load"][0]["arrivals_by_second"].split()
    assert [int(each) for each in recorded][:100] == seconds[:100]
    assert plan.phases[0].planned_s == pytest.approx(3.12, abs=0.2)  # the tenth request, not ten at the mean rate
    silent = SMALL.replace('{ id = "chat", rate = "2/s" }', trace_of(tmp_path, [8, 0, 0, 16] * 4))
    with pytest.raises(ScenarioProblems, match="0 are sure to come"):
        plan_of(silent + "[[check]]\nthat = 'e2e.p95 < 2s'\n")


def test_warmup_and_a_trial_by_work_last_as_long_as_the_trace_takes_for_them(tmp_path: Path):
    text = SMALL.replace('{ id = "chat", rate = "2/s" }', trace_of(tmp_path, [10, *[0] * 19, *[5] * 60]))
    text = text.replace('trial = "60s"', "trial = { completed = 50 }")
    warmup, _, trial, *_ = plan_of(text).phases
    assert warmup.planned_s < 1.0
    assert trial.planned_s == pytest.approx(20 + 10 - 5 - warmup.planned_s, abs=0.5)


def test_drawn_load_has_no_curve_in_the_plan():
    assert plan_of(SMALL).to_json()["load"][0]["arrivals_by_second"] is None


def test_drawn_load_brings_the_rest_of_the_warmup_when_the_trace_is_over(tmp_path: Path):
    mixed = SMALL.replace('{ id = "chat", rate = "2/s" }', '{ id = "chat", rate = "2/s" }, ' + trace_of(tmp_path, [6]))
    assert plan_of(mixed).phases[0].planned_s == pytest.approx(2.0)


def test_judges_that_lack_the_same_are_told_together():
    lines = [line for line in describe(plan_of(SMALL)) if line.startswith("not judged")]
    assert len(lines) == 2  # recovery, and the trends
    assert "leak.rss_anon, leak.fds, leak.sockets, leak.threads, leak.kv_live (8" in " ".join(lines)


def test_plan_is_told_in_lines_that_a_narrow_terminal_holds_with_numbers_beside_their_units():
    for before in range(45, 75):  # so that the number falls on every column
        means = f'means = "{"x" * before} 100 s"'
        lines = list(describe(plan_of(SMALL.replace('means = "x"', means).replace('"60s"', '"600000s"'))))
        assert max(map(len, lines)) <= 80
        assert any("100 s" in line for line in lines)
    assert re.search(r"about \d,\d{3},\d{3} requests", "\n".join(lines))


def test_knob_that_asks_the_machine_is_refused_in_virtual_time_beside_the_other_problems():
    text = (
        "drive = 'virtual'\n"
        + SMALL
        + "[[fault]]\nid = 'f'\ndo = 'device.mem_info: lie 3'\n[target.knobs]\nkv_blocks = 0\n"
    )
    with pytest.raises(ScenarioProblems) as caught:
        plan_of(text)
    assert {problem.key for problem in caught.value.problems} == {"target.knobs.kv_blocks", "fault[0].do"}
    assert "kv_blocks = 0 depends on this machine" in str(caught.value)
    assert "device.mem_info: lie 3: it is crossed when the machine's free memory is read" in str(caught.value)
    plan_of(text.replace("'virtual'", "'live'"))


WEIGHTS = "[[fault]]\nid = 'w'\ndo = 'weights.read: error'\npersist = {}\n"
KILL = "[[fault]]\nid = 'k'\ndo = 'device.launch: kill'\nwhen = {{ at = '9s' }}\n"


@pytest.mark.parametrize(
    ("drive", "faults", "said"),
    [
        ("live", WEIGHTS.format("true") + KILL.format(), None),
        ("live", WEIGHTS.format("true"), "hits only a server that is started again"),
        ("live", WEIGHTS.format("false") + KILL.format(), "hits only a server that is started again"),
        ("virtual", WEIGHTS.format("false"), "a virtual run loads none"),
    ],
)
def test_fault_of_loading_needs_a_server_that_is_started_again(drive: str, faults: str, said: str | None):
    text = f"drive = '{drive}'\n" + SMALL + faults
    if said is None:
        plan_of(text)
        return
    with pytest.raises(ScenarioProblems, match=said):
        plan_of(text)


@pytest.mark.parametrize(
    ("do", "knobs", "said"),
    [
        ("swap.out: refuse", "swap_blocks = 0", "KV is swapped to the host"),
        ("device.copy.h2d: error", "preemption = 'recompute'", "KV is swapped to the host"),
        ("memory.defrag: error", "swap_blocks = 0", "KV is swapped to the host"),
        ("memory.alloc: oom", "swap_blocks = 0", "KV is swapped to the host"),
        ("kv.evict: drop", "prefix_cache = false", "crossed by the prefix cache"),
        ("kv.take: oom", "faults = false", "without fault injection"),
    ],
)
def test_a_point_that_the_runtime_with_these_knobs_never_crosses_is_refused_with_a_cure(do: str, knobs: str, said: str):
    scope = "scope = { pool = 'io' }\n" if do.startswith("memory.alloc") else ""
    fault = f"[[fault]]\nid = 'f'\ndo = '{do}'\n{scope}"
    plan_of(SMALL + fault)
    with pytest.raises(ScenarioProblems) as caught:
        plan_of(f"{SMALL}[target.knobs]\n{knobs}\n{fault}")
    (problem,) = caught.value.problems
    assert problem.key == "fault[0].do"
    assert said in problem.rule
    assert problem.remedy
