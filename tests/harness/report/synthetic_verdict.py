"""The plan and the verdict that go with the made-up history of `synthetic`."""

from typing import Any

from tests.harness.report.story import HOSTILE, Story

S = 1_000_000_000


def plan(story: Story) -> dict[str, Any]:
    faults = [
        ("oom", "kv.take: oom", "mark:kv.out_of_blocks", ["ok", "refused"]),
        ("hang", "device.launch: hang 12s", "mark:guard.cancelled", ["ok", "timeout"]),
        ("cut", "server.stream: cut", "outcome:truncated", ["truncated"]),
        ("quota", "group.quota: exceeded", "mark:admit.refused", ["ok", "refused"]),
        ("late", "event: lost", "mark:device.late", ["ok"]),
    ]
    return {
        "plan": 1,
        "run_id": "20261129_7f3a",
        "seatrial": "0.1.0",
        "commit": "1a2b3c4d",
        "dirty": False,
        "seed": story.seed,
        "scenario": {
            "schema": 1,
            "name": "night-soak",
            "drive": "live",
            "means": "memory, KV blocks or P99 do not come back after a normal day with two kinds of break",
        },
        "target": {
            "kind": "builtin",
            "url": "http://127.0.0.1:43117",
            "capabilities": ["arm", "ledger", "kv_live", "pid"],
        },
        "phases": [{"name": name, "n": 0, "planned_s": story.minutes * 15} for name in ("baseline", "trial")],
        "faults": [
            {
                "id": fault,
                "n": 0,
                "at_s": 5.0,
                "after": None,
                "do": do,
                "point": do.split(":")[0],
                "action": do.split()[1],
                "symptom": symptom,
                "severity": "recoverable",
                "scope": {},
                "fired_min": 1,
                "expect": {"outcomes": outcomes, "victims": "hit", "marks": [], "recover_s": 30.0},
            }
            for fault, do, symptom, outcomes in faults
        ],
        "judges": [
            {"name": "leak.rss_anon < 4MiB/h", "level": "required", "state": "planned", "because": None, "cure": None}
        ],
        "load": [{"id": "chat", "rate_mean": 4.2, "rate_max": 6.0, "arrivals_planned": 1000, "period_s": 40.0}],
        "cost": {"requests": 1440, "tokens": 120_000, "wall_s": story.minutes * 60},
    }


def verdict(story: Story, cut_s: float, end_s: float) -> dict[str, Any]:
    failing = story.state == "FAIL"
    nasty = HOSTILE[3] if story.hostile else ""
    judges = [
        _judge(
            "answered",
            "PASS",
            "1,402 of 1,402 requests have one outcome, ledgers agree",
            limit="every request, once",
            observed="1,402 of 1,402",
        ),
        _judge("alive", "PASS", "no process of ours died on its own"),
        _judge(
            "fired",
            "UNKNOWN" if story.state != "PASS" else "PASS",
            "a fault that never fired proves nothing",
            limit="each fault fired and was felt",
            observed="3 of 4",
            fault="quota#0",
            because="quota#0 was armed for 14.4 s and fired 0 times: no request of group batch came near its quota",
            to_decide="lower groups.batch.hard, or arm it in a busier minute",
        ),
        _judge(
            "reclamation",
            "FAIL" if failing else "PASS",
            "3 KV blocks were not given back after drain",
            limit="0 live blocks when nothing runs",
            observed="3 blocks",
            since_ns=round(S * (cut_s + 1.25)),
            fault="cut#0",
            owner=f"request f-000412 (group batch) {nasty}",
            smallest_visible="1 block",
            figures={"kv.live_blocks": 3.0},
            evidence=[
                {
                    "t_ns": round(S * (cut_s + 1.25)),
                    "request": "f-000412",
                    "text": "cut after token 9, cancel delivered",
                },
                {
                    "t_ns": round(S * (end_s - 1)),
                    "request": "f-000412",
                    "text": f"audit drain: 3 blocks live, last event step 4130 {nasty}",
                },
            ],
        ),
        _judge(
            "tokens",
            "FAIL" if failing else "PASS",
            "one canary parted from its reference at token 11",
            limit="canaries equal the exact reference",
            observed="1 of 41 corrupt, 2 benign drift",
            interval=None,
            since_ns=round(S * (cut_s + 4)),
            fault="cut#0",
            figures={"corrupt": 1.0, "compared": 41.0},
            evidence=[
                {
                    "t_ns": round(S * (cut_s + 4)),
                    "request": "canary-0031",
                    "text": "token 11 of 32: got 811, reference 90, |dlogit| 0.31",
                }
            ],
        ),
        _judge(
            "ttft.p99 < 800ms [chat]",
            "PASS",
            "P99 in this run, outside fault windows",
            limit="< 800 ms",
            observed="96.2 ms",
            interval="88.0 ms .. 121 ms",
            smallest_visible="662 samples allow 1 over",
            figures={"ttft.p99": 0.0962},
        ),
        _judge("recovery", "PASS", "good again after every fault", limit="30 s", observed="2.11 s", fault="oom#0"),
        _judge("e2e.p95 < 2s", "PASS", "", limit="< 2 s", observed="1.04 s"),
        _judge(
            "drift.ttft.p99 < 20% [probe]",
            "FAIL",
            "slower at the end than at the start",
            level="observe",
            limit="< 20 %",
            observed="31 %",
            interval="4 % .. 58 %",
        ),
        _judge(
            "leak.rss_anon < 4MiB/h",
            "NOT_JUDGED",
            "",
            because="8 whole load periods needed, 3 planned",
            to_decide="add 5m to phases.trial",
        ),
        _judge("fairness", "NOT_JUDGED", "", level="observe", because="one group only in this plan"),
    ]
    return {
        "verdict": 1,
        "state": story.state,
        "exit": {"PASS": 0, "FAIL": 1, "UNKNOWN": 2}[story.state],
        "run_id": "20261129_7f3a",
        "seed": story.seed,
        "commit": "1a2b3c4d",
        "dirty": False,
        "seatrial": "0.1.0",
        "scenario": "night-soak",
        "means": "memory, KV blocks or P99 do not come back after a normal day with two kinds of break",
        "replay": "seatrial replay runs/20261129_7f3a",
        "judges": judges,
    }


def _judge(name: str, state: str, summary: str, *, level: str = "required", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "summary": summary, "level": level, **more}
