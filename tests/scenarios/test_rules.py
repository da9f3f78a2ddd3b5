"""One row for each rule: what was written, where the problem points, what it says."""

import pytest

from scenarios.rules import KnownNames
from tests.scenarios.documents import SOUND, problems_of

HEAD = 'schema = 1\nname = "s"\nmeans = "m"\n'
LOAD = 'load = [{ id = "chat", rate = "2/s" }]\n'
TRIAL = 'phases = { trial = "60s" }\n'
PROBE = '{ id = "probe", probe = true, rate = "1/s" }'
KNOWN = KnownNames({"kv.take": ("oom", "delay"), "device.launch": ("hang",)}, {"kv.preempt", "guard.cancelled"})


def load(words: str) -> str:
    return HEAD + TRIAL + f'load = [{{ id = "chat", {words} }}]\n'


def fault(words: str, more: str = "") -> str:
    return SOUND + f'fault = [{{ id = "a", do = "kv.take: oom", {words} }}{more}]\n'


def target(words: str) -> str:
    return SOUND + f"target = {{ {words} }}\n"


def check(words: str, more: str = "") -> str:
    return SOUND + f"check = [{{ {words} }}]\n{more}"


AND_B = ', { id = "b", do = "device.launch: hang" }'

ROWS = [
    # loads
    (load('arrivals = "poisson"'), "load[0].rate", "needs rate", 'add rate = "2/s"'),
    (load('arrivals = "daily", rate = "1/s..6/s"'), "load[0].period", "needs period", 'add period = "10m"'),
    (load('arrivals = "daily", period = "1m"'), "load[0].rate", "needs rate", 'add rate = "1/s..6/s"'),
    (load('arrivals = "ramp", rate = "6/s", period = "1m"'), "load[0].rate", "low to a high", 'write "0/s..6/s"'),
    (load('rate = "1/s..6/s"'), "load[0].rate", "has one rate", 'write "2/s"'),
    (load('rate = "1/s", users = 3'), "load[0].users", "means nothing", "it goes with closed"),
    (load('rate = "1/s", period = "1m"'), "load[0].period", "means nothing", "ramp, burst, daily"),
    (load('arrivals = "closed"'), "load[0].users", "needs users", "add users = 8"),
    (load('arrivals = "trace"'), "load[0].trace", "needs trace", "add trace = {"),
    (load('arrivals = "trace", trace = { loop = true }'), "load[0].trace.file", "required", "add file"),
    (load('arrivals = "trace", trace = { file = "t" }, rate = "1/s"'), "load[0].rate", "means nothing", "time_scale"),
    (load('arrivals = "trace", trace = { file = "t" }, prompt_tokens = 5'), "load[0].prompt_tokens", "clamps", "write"),
    (load('arrivals = "trace", trace = { file = "t" }, shared_prefix = 0.5'), "load[0].shared_prefix", "its own", ""),
    (load('rate = "1/s", cancel = [{ share = 0.6 }, { share = 0.6 }]'), "load[0].cancel", "add up to 1.2", "keep"),
    (load('rate = "1/s", cancel = [{ share = 1 }]'), "phases.warmup", "no load completes", "add a load"),
    (load('rate = "1/s", probe = true, prompt_tokens = [1, 9]'), "load[0].prompt_tokens", "one size", "write"),
    (load('rate = "1/s", probe = true, arrivals = "poisson"'), "load[0].arrivals", "constant rate", '"constant"'),
    (load('rate = "1/s", probe = true, malformed = 0.1'), "load[0].malformed", "alike", "leave malformed out"),
    (load('rate = "1/s", group = "x"'), "load[0].group", 'no target.groups name "x"', "known: default"),
    (SOUND.replace("}]", '}, { id = "chat", rate = "1/s" }]'), "load[1].id", "already the id of load[0]", "give"),
    # targets
    (target('kind = "url"'), "target.url", "needs url", "add url"),
    (target('kind = "command"'), "target.command", "needs command", "add command"),
    (target('kind = "command", command = ["serve"]'), "target.url", "nothing says where", "{port}"),
    (target('command = ["serve"]'), "target.command", "runs no command", 'write kind = "command"'),
    (target('url = "http://127.0.0.1:1"'), "target.url", "sets its own url", "leave url out"),
    (target('kind = "url", url = "127.0.0.1:8000"'), "target.url", "http://", "write"),
    (target('kind = "url", url = "http://[::1"'), "target.url", "http://", "write"),
    (target('kind = "url", url = "http://u:p@localhost:1"'), "target.url", "no user or password", "key_env"),
    (target('kind = "url", url = "http://localhost:1/?a=1"'), "target.url", "no ? or #", 'write "http://localhost:1/"'),
    (target('kind = "url", url = "http://gpu7:8000"'), "target.url", "needs all limits", "[limits]"),
    (target('kind = "url", url = "http://10.0.0.1:80"'), "target.url", "needs all limits", "[limits]"),
    (target('kind = "url", url = "http://127.0.0.1:1", metrics = "http://gpu7:1"'), "target.url", "all limits", "add"),
    (target('groups = [{ name = "a", guarantee = 0.6 }, { name = "b", guarantee = 0.6 }]'), "target.groups", "1.2", ""),
    (target('groups = [{ name = "a", guarantee = 0.6, hard = 0.5 }]'), "target.groups[0].hard", "above hard", "soft"),
    (target('groups = [{ name = "a" }, { name = "a" }]'), "target.groups[1].name", "already the name", "give"),
    ('drive = "virtual"\n' + target('kind = "url", url = "http://localhost:1"'), "drive", "clock of its own", '"live"'),
    # phases
    (HEAD + LOAD + 'phases = { trial = "60s", quiesce = { every = "2m" } }', "phases.quiesce.every", "ends before", ""),
    # faults
    (fault('when = { at = "60s" }'), "fault[0].when.at", "never opens", "less than 60s"),
    (fault('when = { at = "1s", after = "b.healed" }', AND_B), "fault[0].when.at", "both", "keep"),
    (fault('when = { every = "1s", after = "b.fired" }', AND_B), "fault[0].when.every", "both", ""),
    (fault('when = { after = "b.healed" }', AND_B.replace("b", "bb", 1)), "fault[0].when.after", "no fault", '"bb"?'),
    (fault('when = { after = "a.healed" }'), "fault[0].when.after", "a waits for a", "circle"),
    (fault('when = { every = "10s", for = "10s" }'), "fault[0].when.every", "before this one ends", "more than 10s"),
    (fault('when = { every = "60s" }, persist = true'), "fault[0].when.every", "before this one ends", "more than 60s"),
    (fault('when = { for = "10s" }, ttl = "5s"'), "fault[0].ttl", "shorter", 'write 70s'),
    (fault("fired_min = 2"), "fault[0].fired_min", "at most 1 times", "raise when.times to 2"),
    (fault('expect = { victims = "scope" }'), "fault[0].expect.victims", "no scope", 'victims = "all"'),
    (fault('expect = { outcomes = ["ok", "ok"] }'), "fault[0].expect.outcomes", "twice", "leave"),
    (fault('scope = { load = "caht" }'), "fault[0].scope.load", 'no load "caht"', 'did you mean "chat"?'),
    (fault('scope = { phase = "decod" }'), "fault[0].scope.phase", "one of", 'did you mean "decode"?'),
    (SOUND + 'fault = [{ id = "all", do = "kv.take: oom" }]', "fault[0].id", "a meaning of its own", "another"),
    (SOUND + 'fault = [{ id = "a", do = "kv.tkae: oom" }]', "fault[0].do", 'no point "kv.tkae"', '"kv.take"?'),
    (SOUND + 'fault = [{ id = "a", do = "kv.take: oomm" }]', "fault[0].do", 'no action "oomm"', '"oom"?'),
    (fault('expect = { marks = ["kv.prempt"] }'), "fault[0].expect.marks[0]", "no mark", '"kv.preempt"?'),
    # checks
    (check('that = "errors < 1%", load = "x"'), "check[0].load", 'no load "x"', "known: chat"),
    (check('that = "errors < 1%", where = "oom"'), "check[0].where", 'no fault "oom"', "known: all, outside"),
    (check('that = "leak.fds < 1/h", load = "chat"'), "check[0].load", "whole run", "leave load out"),
    (check('that = "drift.ttft.p99 < 9%"'), "check[0].that", "probe stream", "probe = true"),
    (check('that = "drift.ttft.p99 < 9%", load = "chat"'), "check[0].load", "probe stream", "probe = true"),
    (check('that = "errors < 1%", load = "chat", group = "default"'), "check[0].group", "not both", "leave one"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "rule", "remedy"), ROWS, ids=[f"{row[1]}-{row[2]}" for row in ROWS])
def test_a_broken_rule_is_the_only_problem_and_says_what_to_do(text: str, key: str, rule: str, remedy: str) -> None:
    problems = problems_of(text, KNOWN)
    assert [problem.key for problem in problems] == [key], [str(problem) for problem in problems]
    assert rule in problems[0].rule
    assert remedy in problems[0].remedy
    assert problems[0].line >= 1
    assert problems[0].col >= 1


@pytest.mark.parametrize(
    "text",
    [
        SOUND,
        target('kind = "url", url = "http://127.0.0.2:8000"'),
        target('kind = "url", url = "http://[::1]:8000"'),
        target('kind = "command", command = ["vllm", "--port", "{port}"]'),
        target('kind = "url", url = "http://gpu7:8000"')
        + 'limits = { requests = 9, tokens = 9, rate = "1/s", in_flight = 1, wall = "1h" }',
        load('rate = "1/s", group = "default"'),
        fault('when = { every = "11s", for = "10s" }, persist = true, fired_min = 5'),
        fault('when = { every = "11s" }, persist = true, ttl = "10s"'),
        SOUND.replace("}]", "}, " + PROBE + "]") + 'check = [{ that = "drift.ttft.p99 < 9%", load = "probe" }]',
        check('that = "errors < 1%", where = "a"', 'fault = [{ id = "a", do = "kv.take: oom" }]'),
    ],
)
def test_what_the_rules_allow_has_no_problem(text: str) -> None:
    assert problems_of(text, KNOWN) == []


def test_a_circle_of_three_is_named_whole() -> None:
    faults = "".join(
        f'[[fault]]\nid = "{one}"\ndo = "kv.take: oom"\nwhen = {{ after = "{other}.healed" }}\n'
        for one, other in ("ab", "bc", "ca")
    )
    rules = [problem.rule for problem in problems_of(SOUND + faults)]
    assert "a waits for b waits for c waits for a" in rules


def test_a_reference_to_a_load_whose_id_is_broken_is_not_held_against_it() -> None:
    text = SOUND.replace('id = "chat"', "id = 7") + 'check = [{ that = "errors < 1%", load = "chat" }]'
    assert [problem.key for problem in problems_of(text)] == ["load[0].id"]
