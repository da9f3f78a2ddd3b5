"""Runs a load under Locust. No other file imports Locust, because that patches the standard library for gevent.

As a library (LocustLoad, made by main.py) it runs a `LoadRun` from a config. Alone it is an ordinary locustfile, in
which each user is one open-loop stream of requests, a Poisson process of rate SEATRIAL_RATE:

    locust -f harness/load/locustfile.py --host http://127.0.0.1:8000 --headless -u 10 -t 60s

Locust's own reading of an event stream falsifies times, so our reader reads replies and reports true times to Locust: a
row TTFT and a row E2E for each load.
"""

# ruff: noqa: I001 - gevent's patches must come before requests and urllib3 are imported
import gevent
import locust
from gevent.pool import Group
from locust.env import Environment
from locust.exception import StopUser

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.load import dispatch
from harness.load.request_builder import PreparedRequest
from harness.load.closed_loop import ClosedUser, closed_users
from harness.load.config import LoadConfig, parse_config
from harness.load.exchange import Reply
from harness.load.outcome import Outcome
from harness.load.run import SWEEP_S, LoadRun, Ports
from harness.load.spool import Spool
from harness.load.preflight import first_answer

KEPT_SECONDS = 60  # seconds kept in Locust's dictionaries with one key per second
HISTORY_ROWS = 720


def gevent_ports() -> Ports:
    return Ports(time.monotonic_ns, gevent.sleep, gevent.spawn)


def locust_reporter(environment: Environment) -> Callable[[PreparedRequest, int, Reply], None]:
    """A function that reports each reply to Locust: first-token and end-to-end times in ms from sending."""

    fire: Any = environment.events.request.fire

    def report(planned: PreparedRequest, sent_ns: int, reply: Reply) -> None:
        first_ns = reply.stats.first_ns
        # The reply ended as planned, or our own stop cut it.
        ours = reply.outcome in (Outcome.OK, Outcome.CANCELLED, Outcome.UNFINISHED)
        fine = ours or (planned.kind == "malformed" and reply.http == 400)
        # Outcome names only: Locust keeps each new error text for ever.
        exception = None if fine else RuntimeError(reply.outcome.value)
        common: dict[str, Any] = {"response_length": reply.stats.count_tokens()[0] or 0, "context": {}}
        if first_ns is not None:
            ttft_ms = (first_ns - sent_ns) / 1e6
            fire(request_type="TTFT", name=planned.load_id, response_time=ttft_ms, exception=None, **common)
        e2e_ms = (reply.end_ns - sent_ns) / 1e6
        fire(request_type="E2E", name=planned.load_id, response_time=e2e_ms, exception=exception, **common)

    return report


def prune(environment: Environment, now_s: float) -> None:
    """Remove old data that Locust keeps for ever: a key per second and row (79 MB in a day), and its history."""
    stats = environment.stats
    for entry in (stats.total, *stats.entries.values()):
        for per_second in (entry.num_reqs_per_sec, entry.num_fail_per_sec):
            for second in [key for key in per_second if key < now_s - KEPT_SECONDS]:
                del per_second[second]
    del stats.history[:-HISTORY_ROWS]


def keep_up(run: LoadRun, environment: Environment, spawn: Callable[[Callable[[], None]], object]) -> None:
    """Spawn the periodic work of a run, which goes on until its greenlets are killed."""

    def sweep() -> None:
        while True:
            run.sweep()
            gevent.sleep(SWEEP_S)

    def seconds() -> None:
        while True:
            gevent.sleep(1.0)
            run.every_second()
            prune(environment, time.time())

    spawn(sweep)
    spawn(seconds)


class _ClosedLoop(locust.User):
    """A Locust user that runs one closed-loop user. LocustLoad makes a subclass with the two fields below."""

    abstract = True
    waiting: list[ClosedUser]  # the users that are not spawned yet
    run_of_all: LoadRun

    def on_start(self) -> None:
        self.one = self.waiting.pop(0)

    @locust.task
    def turn(self) -> None:
        if not self.one.turn(self.run_of_all):
            raise StopUser


class LocustLoad:
    """A load run inside a Locust runner. The command loop of main.py calls `start` and `stop`."""

    def __init__(self, config: LoadConfig) -> None:
        users = closed_users(config)
        self.environment = Environment(host=config.url)
        self.run = LoadRun(config, Spool(config.spool), gevent_ports(), locust_reporter(self.environment))
        shell = type("ClosedLoop", (_ClosedLoop,), {"waiting": users, "run_of_all": self.run})
        self.environment.user_classes.append(shell)
        self._users = len(users)
        self._runner = self.environment.create_local_runner()
        self._greenlets = Group()
        keep_up(self.run, self.environment, self.spawn)

    def spawn(self, work: Callable[[], None]) -> None:
        """Run work in its own greenlet. An exception fails the run."""

        def guarded() -> None:
            try:
                work()
            except Exception as error:
                self.run.fail(error)

        self._greenlets.spawn(guarded)

    def start(self, t0_ns: int) -> None:
        self.run.plan_clock.start(t0_ns)
        self.spawn(lambda: dispatch.dispatch(self.run))
        self.spawn(lambda: dispatch.canaries(self.run))
        if self._users:
            self._runner.start(self._users, spawn_rate=self._users)

    def stop(self, drain_s: float) -> int:
        """End the run. Returns the number of requests that were cut unfinished."""
        cut = self.run.finish(drain_s)
        if self._users:
            self._runner.stop()
        self._runner.quit()
        self._greenlets.kill()
        self.run.spool.close()
        return cut


# -- alone: `locust -f` ----------------------------------------------------------------------------------------


def plain_config(host: str) -> LoadConfig:
    """A config from the environment: SEATRIAL_RATE (1/s), SEATRIAL_MODEL (default: the first that the target names),
    SEATRIAL_SPOOL, SEATRIAL_SEED, SEATRIAL_API, SEATRIAL_KEY_ENV (the variable that holds the key)."""
    environ = os.environ
    spool = environ.get("SEATRIAL_SPOOL") or str(Path(tempfile.mkdtemp(prefix="seatrial-")) / "requests.jsonl")
    load = {"id": "chat", "arrivals": "poisson", "rate": float(environ.get("SEATRIAL_RATE", "1"))}
    return parse_config(
        {
            "config": 1,
            "spool": spool,
            "url": host,
            "model": environ.get("SEATRIAL_MODEL") or first_answer(host, None, environ.get("SEATRIAL_KEY_ENV")).model,
            "seed": int(environ.get("SEATRIAL_SEED", "0")),
            "api": environ.get("SEATRIAL_API", "completions"),
            "key_env": environ.get("SEATRIAL_KEY_ENV"),
            "load": [load],
        }
    )


# The event loop keeps the time of its last turn, which is from before the imports. Without this a plain `locust -t 2s`
# ends at once where the imports took longer than that.
gevent.get_hub().loop.update_now()


class OpenLoop(locust.User):
    """A Locust user that is one open-loop stream. Streams of several users add up to one Poisson process."""

    serial = 0

    def on_start(self) -> None:
        runner = self.environment.runner
        number = OpenLoop.serial * 1000 + getattr(runner, "worker_index", 0)
        OpenLoop.serial += 1
        config = plain_config(self.host or self.environment.host)
        self.run_of_mine = plain_run(self.environment, config, number)
        self.periodic = Group()
        keep_up(self.run_of_mine, self.environment, self.periodic.spawn)

    @locust.task
    def drive(self) -> None:
        dispatch.dispatch(self.run_of_mine)

    def on_stop(self) -> None:
        self.run_of_mine.finish(0.0)
        self.periodic.kill()


def plain_run(environment: Environment, config: LoadConfig, number: int) -> LoadRun:
    """The run of one such user, with its own seed and spool, so that users send different rows and ids."""
    spool = config.spool.with_suffix(f".{number}.jsonl")
    mine = config.model_copy(update={"seed": config.seed + number, "run_id": f"u{number}", "spool": spool})
    run = LoadRun(mine, Spool(spool), gevent_ports(), locust_reporter(environment))
    run.plan_clock.start(time.monotonic_ns())
    return run
