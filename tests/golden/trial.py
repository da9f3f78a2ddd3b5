"""A trial of the library without its processes: the real server over HTTP in this one, the load's own requests and
spool lines, the recorder, the oracle in another process, the bystanders' twins, and the judge of tokens.

It sends every canary, and some requests of each load, one after another.
"""

import asyncio
import itertools
import json
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from assertions.history import History
from assertions.judge import judge
from assertions.plan_view import PlanView
from assertions.verdict import Judged
from harness.live.load import load_config
from harness.live.reference import compute_reference
from harness.live.twins import compare_twins
from harness.load.config import parse_config
from harness.load.connection import Connection
from harness.load.exchange import Exchange
from harness.load.preflight import Answer
from harness.load.request_builder import PreparedRequest, RequestBuilder
from harness.load.spool_lines import canary_line, reply_line
from harness.plan.plan import Plan, make
from harness.plan.server_config import server_tables
from harness.provenance import Provenance
from harness.record.recorder import Recorder
from runtime.build import build_served
from runtime.points import catalogue
from runtime.server.config import ServerConfig
from runtime.server.journal import Journal
from runtime.server.process import ServerProcess
from runtime.server.sockets import bind
from scenarios import library
from scenarios.arrivals import arrivals
from scenarios.read import read_text

WAIT_S = 120.0


def plan_of(scenario: str, **knobs: int) -> Plan:
    """The plan of a scenario of the library, with settings of `target.knobs`."""
    text = library.find(scenario).read_text()
    if knobs:
        written = ", ".join(f"{name} = {value}" for name, value in knobs.items())
        text = text.replace("canary =", f"target = {{ knobs = {{ {written} }} }}\ncanary =", 1)
    return make(read_text(text), catalogue(), "t", Provenance("0", "abc", False))


def tokens_of(plan: Plan, directory: Path, *, bystanders: int) -> Judged:
    """What `tokens` says of a trial with `bystanders` requests of each load."""
    reference = compute_reference(plan, directory, lambda text: None)
    recorder = Recorder(directory, time.monotonic_ns(), reference)
    began_ns = time.monotonic_ns()
    with server(plan, directory) as url:
        target: Any = SimpleNamespace(url=url, answer=Answer("seatrial-default-1", "completions"))
        config = parse_config(load_config(plan, target, directory))
        with config.spool.open("w") as spool:
            for prepared in _requests(RequestBuilder(config), plan, bystanders):
                for line in _exchanged(prepared):
                    spool.write(json.dumps(line) + "\n")
    recorder.phase("trial", 0, began_ns, time.monotonic_ns(), "done")
    compare_twins(plan, recorder, lambda text: None)
    recorder.pump()
    recorder.close()
    with History.open(recorder.path) as history:
        verdict = judge(history, PlanView.from_plan(plan.to_json()))
    return next(judged for judged in verdict.judges if judged.name == "tokens")


def _requests(builder: RequestBuilder, plan: Plan, bystanders: int) -> Iterator[PreparedRequest]:
    """Every canary, then as many requests of each open load that its client does not end."""
    for number in range(8):
        yield builder.canary_request(number)
    for load in plan.scenario.load:
        whole = (row for row in arrivals(load, plan.scenario.seed) if row.cancel_at is None and not row.malformed)
        for row in itertools.islice(whole, bystanders):
            yield builder.load_request(load, row)


def _exchanged(prepared: PreparedRequest) -> Iterator[dict[str, object]]:
    """The spool lines of one request."""
    connection = Connection()
    sent_ns = time.monotonic_ns()
    reply = Exchange(prepared.request, connection).run()
    connection.drop()
    assert reply.outcome == "ok", reply
    yield {**prepared.line, "intended_ns": sent_ns, "sent_ns": sent_ns}
    yield reply_line(prepared.request.id, reply)
    if prepared.kind == "canary":
        yield canary_line(prepared.request.id, reply)


@contextmanager
def server(plan: Plan, directory: Path) -> Iterator[str]:
    """The address of the built-in server, on a thread."""
    journal = Journal(str(directory / "outcomes.jsonl"))
    ready: queue.Queue[str] = queue.Queue()
    knobs = {**server_tables(plan.scenario.target)["engine"], "threads": 1}
    process = ServerProcess(build_served(knobs, journal), ServerConfig(stop_grace_s=0.2), journal)
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await process.run(bind("127.0.0.1", 0), None, ready.put)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{json.loads(ready.get(timeout=WAIT_S))['port']}"
    finally:
        loops[0].call_soon_threadsafe(process.stop)
        thread.join(WAIT_S)
        journal.close()
