"""leak: a planted slope is found, a clean or wavy series is not, and too little is not judged."""

import math
import random

import pytest

from assertions.verdict import Judged, Level, State
from tests.assertions.recorded import MS, Recorded, S, long_run

MIB = 1 << 20


def memory(run: Recorded, per_hour: float = 0.0, wave: float = 0.0, noise: float = 1.0, period_s: int = 60) -> None:
    """Resident memory in bytes around 1 GiB, at 1 Hz: a slope, the load's own wave, noise."""
    rng = random.Random("memory")
    end_s = run.tables["phase"][-1]["end_ns"] // S
    samples = [
        (
            t * S,
            1024 * MIB
            + per_hour * t / 3600
            + wave * math.sin(2 * math.pi * (t - 20) / period_s)
            + rng.gauss(0, noise * MIB),
        )
        for t in range(end_s)
    ]
    run.series("server.rss_anon", samples)


def checked(run: Recorded, that: str, **more: object) -> Judged:
    run.plan["scenario"]["check"] = [{"that": that, **more}]
    run.plan["target"]["capabilities"] = ["pid", "kv_live"]
    return next(judged for judged in run.verdict().judges if judged.name.startswith(that))


class TestLeak:
    THAT = "leak.rss_anon < 40MiB/h"

    def test_a_planted_slope_fails_with_limit_interval_smallest_visible_and_since_when(self) -> None:
        run = long_run()
        memory(run, per_hour=100 * MIB)
        judged = checked(run, self.THAT)
        assert judged.state is State.FAIL
        assert judged.limit == "growth < 40 MiB/h"
        assert 80 * MIB < judged.figures["low"] < 100 * MIB < judged.figures["high"]
        assert judged.figures["theil_sen"] == pytest.approx(100 * MIB, rel=0.1)
        assert judged.smallest_visible is not None
        assert judged.since_ns is not None
        assert judged.owner == "server"

    def test_the_child_that_holds_the_growth_is_named(self) -> None:
        run = long_run()
        memory(run, per_hour=100 * MIB)
        run.series("server.child.api.rss_anon", [(t * S, 50.0 * MIB) for t in range(760)])
        run.series("server.child.engine.rss_anon", [(t * S, (900 + 100 * t / 3600) * MIB) for t in range(760)])
        assert checked(run, self.THAT).owner == "server, child engine"

    def test_a_clean_series_passes_although_the_load_waves(self) -> None:
        run = long_run()
        memory(run, wave=200 * MIB)
        assert checked(run, self.THAT).state is State.PASS

    def test_an_interval_that_spans_the_budget_is_unknown_and_names_a_decidable_limit(self) -> None:
        run = long_run()
        memory(run, per_hour=40 * MIB, noise=20)
        judged = checked(run, self.THAT)
        assert judged.state is State.UNKNOWN
        assert "or a limit of" in (judged.to_decide or "")

    def test_fewer_than_8_whole_periods_are_not_judged(self) -> None:
        run = long_run(periods=7)
        run.plan["phases"][0]["planned_s"] = 600.0  # ten were planned, seven came
        memory(run, per_hour=1000 * MIB)
        judged = checked(run, self.THAT)
        assert judged.state is State.UNKNOWN
        assert judged.summary == "7 whole periods of 1m were usable, 8 are needed"

    def test_memory_that_went_to_swap_still_counts(self) -> None:
        run = long_run()
        memory(run)
        run.series("server.swap", [(t * S, 100 * MIB * t / 3600) for t in range(760)])
        assert checked(run, self.THAT).state is State.FAIL

    def test_what_happens_in_a_fault_window_is_no_trend(self) -> None:
        run = long_run(periods=16)
        memory(run)
        last = [row for row in run.tables["sample"] if 800 * S < row["t_ns"] < 900 * S]
        for row in last:
            row["value"] += 400 * MIB
        assert checked(run, self.THAT).state is not State.PASS
        run.add("fault", id="oom", n=0, arm_ns=799 * S, first_ns=800 * S, heal_ns=880 * S, fired=1, fired_min=1)
        run.plan["faults"] = [
            {
                "id": "oom",
                "n": 0,
                "do": "kv.take: oom",
                "point": "kv.take",
                "action": "oom",
                "expect": {"recover_s": 30.0},
            }
        ]
        judged = checked(run, self.THAT)
        assert judged.state is State.PASS
        assert judged.figures["blocks_left_out"] == 11, "six blocks of 10 s a period: from 799 s to 910 s"

    def test_eight_short_periods_that_end_a_little_early_are_eight_and_a_few_samples_are_told(self) -> None:
        run = long_run(periods=8, period_s=10)
        run.tables["phase"][2]["end_ns"] -= 10 * MS
        memory(run, per_hour=40000 * MIB, period_s=10)
        assert checked(run, self.THAT).state is State.FAIL
        run = long_run(periods=10, period_s=4)
        memory(run, period_s=4)
        assert checked(run, self.THAT).summary == "the samples fill 20 blocks of the trial, 24 are needed"

    def test_a_run_that_ended_before_its_trial_is_unknown_with_the_periods_it_lacks(self) -> None:
        run = long_run()
        memory(run)
        run.tables["phase"] = [row for row in run.tables["phase"] if row["name"] in ("warmup", "baseline")]
        judged = checked(run, self.THAT)
        assert judged.state is State.UNKNOWN
        assert judged.summary.startswith("0 whole periods of 1m were usable, 8 are needed")

    def test_a_series_without_a_sensor_is_unknown_and_says_why(self) -> None:
        run = long_run()
        run.series("server.rss_anon", [], absent="no pid")
        assert checked(run, self.THAT).summary == "no samples of server.rss_anon (no pid)"

    def test_blocks_are_whole_periods_of_all_loads_together(self) -> None:
        run = long_run()
        memory(run)
        run.plan["load"].append({"id": "flood", "rate_mean": 1.0, "period_s": 90.0})
        run.plan["phases"][0]["planned_s"] = 8 * 180.0
        judged = checked(run, self.THAT)
        assert judged.summary == "4 whole periods of 3m were usable, 8 are needed"

    def test_one_descriptor_more_in_each_period_fails_and_none_passes(self) -> None:
        run = long_run()
        run.series("server.fds", [(t * S, 40 + max(0, t - 20) // 60) for t in range(760)])
        assert checked(run, "leak.fds < 1/h").state is State.FAIL
        run = long_run()
        run.series("server.fds", [(t * S, 40.0) for t in range(760)])
        assert checked(run, "leak.fds <= 0/h").state is State.PASS
        assert checked(run, "leak.fds < 1/h").state is State.PASS

    def test_blocks_in_use_are_judged_by_what_is_left_when_the_load_takes_a_breath(self) -> None:
        run = long_run()
        run.series("kv.live_blocks", [(t * S, (t % 60) * 3.0) for t in range(760)])
        assert checked(run, "leak.kv_live < 1/h").state is State.PASS
        run = long_run()
        run.series("kv.live_blocks", [(t * S, (t % 60) * 3.0 + t // 60) for t in range(760)])
        assert checked(run, "leak.kv_live < 1/h").state is State.FAIL

    @pytest.mark.parametrize(
        ("that", "series"),
        [
            ("leak.fragmentation < 20%/h", "kv.internal_fragmentation"),
            ("leak.swap_fragmentation < 20%/h", "pool.fragmentation[io]"),
        ],
    )
    def test_fragmentation_that_goes_on_growing_fails_and_a_level_passes(self, that: str, series: str) -> None:
        for per_hour, state in ((1.5, State.FAIL), (0.0, State.PASS)):
            run, rng = long_run(), random.Random(series)
            run.series(series, [(t * S, 0.1 + per_hour * t / 3600 + rng.uniform(0, 0.02)) for t in range(760)])
            judged = checked(run, that)
            assert judged.state is state
            assert "%/h" in judged.summary

    def test_fragmentation_that_rose_once_is_told_with_its_size(self) -> None:
        run, rng = long_run(), random.Random(1)
        values = [(t * S, 0.1 + 0.3 * (t > 400) + rng.uniform(0, 0.02)) for t in range(760)]
        run.series("kv.internal_fragmentation", values)
        judged = checked(run, "leak.fragmentation < 20%/h")
        assert judged.state is State.UNKNOWN
        assert "rose once: +30 %" in judged.summary

    def test_without_a_check_memory_is_watched_against_its_own_spread_and_only_shown(self) -> None:
        run = long_run()
        memory(run, per_hour=100 * MIB)
        watched = next(j for j in _with_pid(run).verdict().judges if j.name == "leak.rss_anon")
        assert (watched.state, watched.level) == (State.FAIL, Level.OBSERVE)
        run = long_run()
        memory(run)
        watched = next(j for j in _with_pid(run).verdict().judges if j.name == "leak.rss_anon")
        assert watched.state is State.PASS
        assert "4 SD of its own" in (watched.limit or "")


class TestCeiling:
    @pytest.mark.parametrize(
        ("that", "state"),
        [
            ("max.fds < 200", State.PASS),
            ("max.fds < 90", State.FAIL),
            ("max.sockets < 30", State.FAIL),
            ("max.file_cache < 1MiB", State.PASS),
            ("max.threads <= 7", State.PASS),
            ("max.rss_anon < 1500MiB", State.FAIL),
            ("max.rss_anon < 1700MiB", State.PASS),
            ("max.fragmentation < 40%", State.FAIL),
        ],
    )
    def test_a_ceiling_holds_over_the_whole_run_with_what_was_swapped_out(self, that: str, state: State) -> None:
        run = long_run()
        run.series("server.fds", [(t * S, 99.0 if t == 3 else 40.0) for t in range(760)])
        run.series("server.sockets", [(t * S, 30.0) for t in range(760)])
        run.series("server.file_cache", [(t * S, 4096.0 * (t % 200)) for t in range(760)])
        run.series("server.threads", [(t * S, 7.0) for t in range(760)])
        run.series("server.rss_anon", [(t * S, 1024.0 * MIB) for t in range(760)])
        run.series("server.swap", [(t * S, 600.0 * MIB) for t in range(500, 760)])
        run.series("kv.internal_fragmentation", [(t * S, 0.5 if t == 700 else 0.1) for t in range(760)])
        assert checked(run, that).state is state


def _with_pid(run: Recorded) -> Recorded:
    run.plan["target"]["capabilities"] = ["pid"]
    return run


def test_a_leak_says_by_when_it_was_certain() -> None:
    """A fast leak is certain early, and no leak after the end of the trial."""
    certain = {}
    for rate in (200, 2000):
        run = long_run()
        memory(run, per_hour=rate * MIB)
        judged = checked(run, "leak.rss_anon < 50MiB/h")
        assert judged.state is State.FAIL
        assert "; certain by 00:" in judged.summary
        certain[rate] = judged.figures["certain_s"]
    assert 100 < certain[2000] <= certain[200] <= 760
