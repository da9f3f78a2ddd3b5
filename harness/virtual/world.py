"""The world of a virtual run: engine, device, server and clients in one thread, and the loop that advances their time.

    next planned call, or the guard's next deadline -> the clock jumps there -> all calls of that time -> engine.step

All calls planned for one time come before the engine's step, as a live engine takes all mail of its mailbox at once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from harness.load.breaker import Breaker, politeness_of
from harness.load.outcome import ClientEnd
from harness.plan.canary import CanaryConfig
from harness.plan.plan import Plan
from harness.plan.server_config import server_tables
from harness.plan.timeline import trial_s
from harness.telemetry.memory_series import memory_rows, of_tenant
from harness.trial.stop import Overdue
from harness.virtual.client import Client
from harness.virtual.load import VirtualLoad
from harness.virtual.rows import Rows
from harness.virtual.server import VirtualServer
from harness.virtual.step_outputs import VirtualOutputs
from harness.virtual.turns import ClockStands, Turns
from runtime.assembly import assemble, make_block_pool, make_env
from runtime.config import read_engine_config
from runtime.contract.step import ModelShape
from runtime.core.errors import DeviceLost
from runtime.core.mechanism import mechanism, of_runtime
from runtime.core.messages import Mailbox, end_of
from runtime.device.accounted import AccountedModel
from runtime.device.costs import CostTable, Priced, Slowing
from runtime.device.device_audit import device_rows
from runtime.device.hash_model import HashModel
from runtime.device.host_bytes import HostBytes, SimMover
from runtime.device.sim import SimDevice
from runtime.device.virtual_time import VirtualTime
from runtime.engine import EngineParts, StepExecutor
from runtime.fast_forward import CHECK_ONE_IN, FastForward
from runtime.guard.audit import AuditRow
from runtime.guard.standstill import StandstillWatch, standstill, waits
from runtime.memory.host import HostSegments
from runtime.memory.kv.figures import kv_usage, prefix_usage, tenant_usages
from runtime.memory.spans.upstream import Reserve
from runtime.memory.spans.usage import MemoryFigures
from runtime.server.config import server_config

SAMPLE_NS = 1_000_000_000
CHECK_ALL_REQUESTS = 2000
"""In a trial that is planned to send fewer requests, every run of fast-forward is checked."""
HOST_BYTES = 1 << 30
DEVICE_BYTES = 1 << 30
"""Memory sizes (bytes) of the simulated machine. Pages without swapped data are never allocated."""


class World:
    """Built for one plan. `run_for` lets time pass; `ended` is called with each client whose request has ended.

    `check_one_in`: one run of fast-forward in so many is checked; None derives it from the plan. `slowing`: after the
    planned length of the trial a launch costs this share more.
    """

    def __init__(
        self,
        plan: Plan,
        rows: Rows,
        table: CostTable,
        canary: CanaryConfig,
        *,
        fast_forward: bool = True,
        check_one_in: int | None = None,
        slowing: float | None = None,
    ) -> None:
        scenario = plan.scenario
        tables = server_tables(scenario.target)
        settings = read_engine_config(tables["engine"])
        self.time = VirtualTime()
        self.rows = rows
        self.ended: Callable[[Client], None] = lambda client: None
        self._engine_due = True
        self._deadline_ns: int | None = None
        """Time of the guard's next deadline; None when there is none."""
        self._broken: DeviceLost | None = None
        """Set when the runtime has raised an exception or stands still: its engine takes no further step."""
        self._interrupted = False
        """True when a signal interrupted a turn of the engine, which then takes no further step either."""
        mailbox = Mailbox(settings.waiting_max, self.wake)
        self.env = env = make_env(settings, self.time, self.wake, rows.fire, rows.fault)
        self.faults = env.faults
        pool = make_block_pool(settings, env, f"keyed/{scenario.seed}")
        model = HashModel(settings.kv_blocks, settings.block_tokens, scenario.seed)
        costs = self._costs(table, plan, slowing)
        host = HostBytes(HOST_BYTES)
        mover = SimMover(host, "io", model.rows, pool.plane)
        limits = settings.limits
        shape = ModelShape(
            blocks=settings.kv_blocks + 1,
            block_tokens=settings.block_tokens,
            tokens_max=limits.token_budget,
            samples_max=limits.seqs_max,
        )
        self._model = AccountedModel(model, env, Reserve(DEVICE_BYTES), shape)
        device = SimDevice({"": self._model}, pool.plane, env, self.time, costs, mover)
        self._pool, self._block_bytes = pool, mover.block_bytes
        config = server_config(tables["server"])
        context_tokens = settings.kv_blocks * settings.block_tokens
        self.server = VirtualServer(
            env, self.time, mailbox, rows, context_tokens, config, lambda client: self.load.end(client)
        )
        self.load = VirtualLoad(
            self.time,
            rows,
            scenario,
            canary,
            self.server.receive,
            self.server.hang_up,
            lambda client: self.ended(client),
            Breaker(politeness_of(scenario), 0),
        )
        outputs = VirtualOutputs(self.server, rows.gaps)
        self.fast_forward: FastForward | None = None
        one_in = _check_one_in(plan) if check_one_in is None else check_one_in

        def chain(parts: EngineParts) -> tuple[StepExecutor, ...]:
            if not fast_forward:
                return (parts.eager,)
            self.fast_forward = FastForward(
                env, pool, limits, parts, model, device, costs, self.time, settings.bounds.late_ns, outputs, one_in
            )
            return (self.fast_forward, parts.eager)

        memory = HostSegments(host, mover.block_bytes, host.move)
        made = assemble(settings, env, mailbox, pool, device, memory, self.server, chain)
        self.engine, self._host = made.engine, made.host
        self.server.fatal, self.server.generated = lambda: self.fatal, self.engine.generated
        self.turns = Turns(lambda: standstill(self.engine.scene(), 0) or "; ".join(waits(self.engine.scene())))
        bound_s = config.health_stall_s
        self._standstill = StandstillWatch(env, bound_s, lambda bound_ns: standstill(self.engine.scene(), bound_ns))
        self.time.at(SAMPLE_NS, self._sample)

    def _costs(self, table: CostTable, plan: Plan, slowing: float | None) -> Priced:
        seed = plan.scenario.seed
        if slowing is None:
            return Priced(table, seed)
        return Slowing(table, seed, self.time.now_ns, slowing, round(trial_s(plan.phases) * 1e9))

    @property
    def fatal(self) -> DeviceLost | None:
        """The error that ended the engine; None while it runs, and when it was interrupted by a signal."""
        return None if self._interrupted else self._broken or self.engine.fatal

    def broke(self, error: BaseException) -> bool:
        """Return whether the runtime, which is on trial, raised `error` or does not come back. It is recorded then, and
        the engine ends as that of a live server would."""
        if isinstance(error, Overdue):
            kind = None if error.signalled else "stalled"
            ours, text = not error.in_target, f"{error}; step {self.engine.steps}"
        elif isinstance(error, ClockStands):
            kind, ours, text = "stalled", False, str(error)
        else:
            kind, ours, text = "exception", not of_runtime(error), mechanism(error, self.engine.steps)
        if ours:
            return kind is None  # a signal ends the run wherever it is
        if self._broken is None:  # what a broken runtime raises later is no news
            self._interrupted = kind is None
            if kind is not None:
                self.env.tell(kind, "", text)
            self._end_engine(text)
        return True

    def _end_engine(self, why: str) -> None:
        """Take no further step of the engine, and end all requests. After an interrupt their clients end them."""
        self._broken = DeviceLost(why)
        self.time.clear()
        self.rows.events(self.env.events.take())
        if self._interrupted:
            return
        with self._broken_already():
            self.server.admission.end_all(end_of(self._broken))

    @contextmanager
    def _broken_already(self) -> Iterator[None]:
        """Leave out what a runtime that is broken already raises."""
        try:
            yield
        except Exception as error:
            if self._broken is None or not self.broke(error):
                raise

    def audit(self, scope: str) -> list[AuditRow]:
        """The rows of the engine's reclamation audit, and those of the device's own pools."""
        if self._broken is not None:
            return []  # in the middle of a step nothing adds up
        return self.engine.audit(scope) + device_rows(self.env, self._model.held(), scope)

    def wake(self) -> None:
        """The engine has mail or may continue: it takes a step at the present time."""
        self._engine_due = True

    def run_for(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass."""
        time = self.time
        until_ns = time.now_ns() + round(seconds * 1e9)
        time.at(until_ns, lambda: None)  # the caller acts then, so fast-forward must not go further
        while True:
            now_ns, next_ns = time.now_ns(), time.next_ns
            self.turns.begin(now_ns)
            if self._broken is not None:
                self._engine_due, self._deadline_ns = False, None
            if self._engine_due and next_ns != now_ns:
                self._step()
                continue
            if self._deadline_ns is not None and (next_ns is None or self._deadline_ns < next_ns):
                if self._deadline_ns > until_ns:
                    break
                time.jump(max(self._deadline_ns, now_ns))
                self._step()
            elif next_ns is None or next_ns > until_ns:
                break
            else:
                with self._broken_already():
                    time.step()
        time.jump(until_ns)

    def close(self) -> None:
        """End the open requests, and write all pending rows."""
        for session in list(self.server.admission.open.values()):
            if session.peer.client.outcome is None:
                with self._broken_already():
                    self.server.hang_up(session.peer.client, ClientEnd.STOPPED)
        self.run_for(0)
        self.server.write_counters()
        self.rows.write_gaps(self.time.now_ns(), cut=True)
        self.rows.flush(everything=True)

    def _step(self) -> None:
        self._engine_due = False
        self.engine.step()
        self._read_deadline()

    def _read_deadline(self) -> None:
        wait_s = self.engine.wait_s()
        self._deadline_ns = None if wait_s is None else self.time.now_ns() + round(wait_s * 1e9)

    def memory(self) -> MemoryFigures:
        """The figures of KV, the swap pool and the prefix cache. The audits hold those of single requests."""
        pool, engine, block_bytes = self._pool, self.engine, self._block_bytes
        tenants = tenant_usages(pool, engine.holdings(), block_bytes)
        kv = kv_usage(pool, tenants, engine.leaked(pool.name), block_bytes)
        io = replace(self._host.pool.usage(), leaks=engine.leaked("io"))
        return MemoryFigures(pools=(kv, io), prefix=prefix_usage(pool, block_bytes), tenants=tenants)

    def _sample(self) -> None:
        if self._broken is not None:
            return
        if (found := self._standstill.look()) is not None:
            self._end_engine(found)
            return
        self.server.admission.end_overdue()
        self.server.write_counters()
        admission = self.server.admission
        status, load, now_ns = self.engine.status, self.load, self.time.now_ns()
        kv = status.kv
        used = kv.live + kv.limbo
        self.rows.sample(
            now_ns,
            {
                "server.running": (status.running, "requests", "gauge"),
                "server.waiting": (status.waiting, "requests", "gauge"),
                "kv.usage": (used / kv.total if kv.total else 0.0, "share", "gauge"),
                "kv.live_blocks": (kv.live, "blocks", "gauge"),
                "kv.cached_blocks": (kv.cached, "blocks", "gauge"),
                "kv.limbo_blocks": (kv.limbo, "blocks", "gauge"),
                "kv.total_blocks": (kv.total, "blocks", "gauge"),
                "server.prompt_tokens": (status.prompt_tokens, "tokens", "counter"),
                "server.generation_tokens": (status.generation_tokens, "tokens", "counter"),
                "server.preemptions": (status.preemptions, "requests", "counter"),
                "server.open_requests": (len(admission.open), "requests", "gauge"),
                **{
                    of_tenant("server.ended", word): (n, "requests", "counter")
                    for word, n in admission.outcomes.items()
                },
                "server.steps": (status.steps, "steps", "counter"),
                "server.fallbacks": (self.env.counters.fallbacks, "count", "counter"),
                "load.in_flight": (load.in_flight, "requests", "gauge"),
                "load.dropped": (load.dropped, "requests", "counter"),
                "load.sent": (load.sent, "requests", "counter"),
                "load.done": (load.done, "requests", "counter"),
                **memory_rows(self.memory()),
            },
        )
        self.rows.write_gaps(now_ns)
        self.time.at(now_ns + SAMPLE_NS, self._sample)


def _check_one_in(plan: Plan) -> int:
    """One run of fast-forward in so many is repeated step by step and compared; in a short trial, every run is."""
    requests = plan.cost.requests
    return 1 if requests is not None and requests < CHECK_ALL_REQUESTS else CHECK_ONE_IN
