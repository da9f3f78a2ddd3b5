"""Builds the live runtime with torch: model directory -> decoder, KV pages, pools, device, engine thread."""

import platform
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import torch

from faults import FaultSpec
from runtime.assembly import assemble, make_block_pool, make_env
from runtime.config import EngineConfig, read_engine_config
from runtime.contract.spec import ContractKey
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, RuntimeFailure
from runtime.core.mechanism import module_of, places_from, where
from runtime.core.messages import Mailbox, Sink
from runtime.device.cpu import CpuDevice
from runtime.device.device_audit import device_rows
from runtime.device.malloc import keep_freed_memory
from runtime.device.mem_info import MemInfo
from runtime.device.threads import compute_alone
from runtime.device.torch_mover import TorchMover
from runtime.device.torch_segments import TorchSegments, carved, placed
from runtime.engine import Chain, Engine, eager_only
from runtime.guard.audit import AuditRow
from runtime.guard.standstill import standstill
from runtime.memory.assembly import MIB, Poison, PoolSizes, device_pools
from runtime.memory.host import HostMemory, HostSegments
from runtime.memory.kv.figures import kv_usage, prefix_usage, request_usages, tenant_usages
from runtime.memory.kv.paged import PagedPool
from runtime.memory.maintenance import MaintenanceLoop
from runtime.memory.spans.span import PoolKind
from runtime.memory.spans.usage import MemoryFigures
from runtime.models.buffers import step_bytes
from runtime.models.config import DecoderConfig, read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv, kv_bytes
from runtime.models.loader import load_weights, weights_digest
from runtime.models.prepare import PAD
from runtime.models.runner import ModelRunner
from runtime.models.tokenizer import read_tokenizer
from runtime.models.warm import PROMPT_TOKENS, ROWS, warm_up
from runtime.models.weights import weights_bytes
from runtime.models.workspace import Workspace, scratch_bytes
from runtime.server.ports import EventSink, Tokenizer
from runtime.stats import EngineStats

KV_SHARE = 0.5
"""Share of the free memory that KV takes when `kv_blocks` is 0, at most all sequences at full length."""
FREE_BYTES_MIN = 64 * MIB
"""Free bytes of the system below which empty segments are returned to it."""


def build_served(engine: Mapping[str, object], evidence: EventSink, armed: Sequence[FaultSpec] = ()) -> "Runtime":
    """The runtime that the settings `engine` describe, ready to start. The faults `armed` are armed before the weights
    are read. Raises ValueError that names the wrong settings or why the model can't be served."""
    settings = read_engine_config(engine)
    keep_freed_memory()
    compute_alone()
    directory = Path(settings.model) if settings.model is not None else default_model()
    config = read_config(directory)
    mailbox = Mailbox(settings.waiting_max)
    env = make_env(settings, WallClock(), mailbox.wake, evidence.fire, evidence.fault)
    if armed:
        env.faults.arm(armed)
    if settings.kv_blocks == 0:
        blocks = _blocks_that_fit(settings, config, MemInfo(env).free_bytes())
        settings = settings.model_copy(update={"kv_blocks": blocks})
    digest = weights_digest(directory)
    pool = make_block_pool(settings, env, digest, timer=time.perf_counter_ns)
    segments = TorchSegments()
    space = _workspace(settings, config, env, segments)
    in_weights = placed(segments, space.pools[PoolKind.WEIGHT], PoolKind.WEIGHT)
    weights = load_weights(directory, config, make=in_weights, faults=env.faults, digest=digest)
    in_kv = carved(segments, pool.name, kv_bytes(config, settings.kv_blocks, settings.block_tokens))
    kv = PagedKv(config, settings.kv_blocks, settings.block_tokens, make=in_kv)
    model = ModelRunner(
        Decoder(config, weights, batch_invariant=settings.exact, space=space),
        kv,
        env,
        ContractKey("", directory.name, digest),
    )
    return Runtime(settings, env, mailbox, pool, model, read_tokenizer(directory), directory, digest)


def _blocks_that_fit(settings: EngineConfig, config: DecoderConfig, free_bytes: int | None) -> int:
    """The number of KV blocks for `kv_blocks = 0`: a share of the device's free memory. Raises ValueError when it holds
    none, or when the device does not report it."""
    if free_bytes is None:
        raise ValueError(
            "kv_blocks = 0 takes a share of the free memory, and this device does not report it; give a number"
        )
    block_bytes = config.kv_bytes(settings.block_tokens)
    kv_bytes_max = int(free_bytes * KV_SHARE) - weights_bytes(config)
    most = settings.seqs_max * -(-config.context_max // settings.block_tokens)
    if kv_bytes_max < block_bytes:
        raise ValueError(
            f"kv_blocks = 0: {free_bytes} B are free, and no block of {block_bytes} B fits beside the weights"
        )
    return min(kv_bytes_max // block_bytes, most)


def _workspace(settings: EngineConfig, config: DecoderConfig, env: Env, segments: TorchSegments) -> Workspace:
    """The workspace on the device's pools, with room for the largest step that the settings allow."""
    tokens = settings.token_budget + PAD  # batch-invariant mode pads
    scratch = scratch_bytes(config, min(config.context_max, settings.kv_blocks * settings.block_tokens))
    sizes = PoolSizes(
        weight=weights_bytes(config),
        step=step_bytes(config, max(tokens, PROMPT_TOKENS), max(settings.seqs_max, *ROWS)),
        workspace=2 * scratch,
    )
    pools = device_pools(env, segments, sizes, poison=_poison(settings, segments), timer=time.perf_counter_ns)
    return Workspace(config, segments, pools, scratch)


def _poison(settings: EngineConfig, segments: TorchSegments) -> Poison | None:
    return segments.poison if settings.poison else None


class WallClock:
    """CLOCK_MONOTONIC, the only clock of a live run."""

    def now_ns(self) -> int:
        """The present time, ns."""
        return time.monotonic_ns()


class Runtime:
    """An engine on a thread of its own. Implements `runtime.server.ports.RuntimeHandle`."""

    def __init__(
        self,
        settings: EngineConfig,
        env: Env,
        mailbox: Mailbox,
        pool: PagedPool,
        model: ModelRunner,
        tokenizer: Tokenizer,
        directory: Path,
        digest: str,
    ) -> None:
        self.env = env
        self.mailbox = mailbox
        self.tokenizer = tokenizer
        self.model = directory.name
        self.context_tokens = min(model.decoder.config.context_max, settings.kv_blocks * settings.block_tokens)
        self.info: Mapping[str, object] = _info(settings, directory, digest)
        self._settings = settings
        self._pool = pool
        self._runner = model
        self._space = model.decoder.space
        self._host: HostMemory | None = None
        self._maintenance: MaintenanceLoop | None = None
        self._engine: Engine | None = None
        self._thread: threading.Thread | None = None
        self._crash: DeviceLost | None = None
        self._closing = False

    @property
    def status(self) -> EngineStats:
        """The engine's latest snapshot."""
        return self._engine.status if self._engine is not None else EngineStats()

    @property
    def fatal(self) -> RuntimeFailure | None:
        """The error that ended the engine; None while it runs."""
        return self._crash or (self._engine.fatal if self._engine is not None else None)

    def generated(self, request_id: str) -> int | None:
        """The number of tokens generated for an open request; None when the engine has no such request."""
        return None if self._engine is None else self._engine.generated(request_id)

    def start(self, sink: Sink, *, threaded: bool = True, chain: Chain = eager_only) -> None:
        """Starts the device's worker, and the engine's thread. With `threaded` False the caller calls `turn` itself."""
        assert self._engine is None, "a runtime is started once"
        settings = self._settings
        pool, kv, segments = self._pool, self._runner.kv, self._space.segments
        copies = TorchMover(segments, "io", (*kv.keys, *kv.values), pool.plane)
        device = CpuDevice({"": self._runner}, pool.plane, self.env, threads=settings.torch_threads, mover=copies)
        device.call(lambda: warm_up(self._runner, settings.kv_blocks, settings.block_tokens))
        host = HostSegments(
            segments, copies.block_bytes, segments.move, _poison(settings, segments), time.perf_counter_ns
        )
        made = assemble(settings, self.env, self.mailbox, pool, device, host, sink, chain)
        self._engine, self._host = made.engine, made.host
        self._block_bytes = copies.block_bytes
        self._device = device
        free_bytes = MemInfo(self.env).free_bytes
        self._maintenance = MaintenanceLoop(self.env, made.host, free_bytes, FREE_BYTES_MIN, self._measure)
        if threaded:
            self._thread = threading.Thread(
                target=self._serve, args=[self._engine, self._maintenance], name="engine", daemon=True
            )
            self._thread.start()

    def turn(self) -> None:
        """Makes one step of the engine and one turn of memory maintenance. Call it on the engine's thread."""
        assert self._engine is not None and self._maintenance is not None, "start comes first"
        self._engine.step()
        self._maintenance.turn()

    def audit(self, scope: str) -> list[AuditRow]:
        """The rows of the reclamation audit. Call it on the engine's thread."""
        assert self._engine is not None
        return self._engine.audit(scope) + device_rows(self.env, self._space.held(), scope)

    @property
    def memory(self) -> MemoryFigures:
        """Memory figures that are at most a second old, from any thread."""
        return MemoryFigures() if self._maintenance is None else self._maintenance.figures

    def measure_memory(self) -> MemoryFigures:
        """Measures the memory figures now. Call it on the engine's thread."""
        return self._measure(self.memory.free_bytes)

    def _measure(self, free_bytes: int | None) -> MemoryFigures:
        engine, host, pool, block_bytes = self._engine, self._host, self._pool, self._block_bytes
        assert engine is not None and host is not None, "start comes first"
        holdings = engine.holdings()
        tenants = tenant_usages(pool, holdings, block_bytes)
        io = replace(host.pool.usage(), leaks=engine.leaked("io"))
        return MemoryFigures(
            pools=(kv_usage(pool, tenants, engine.leaked(pool.name), block_bytes), io, *self._space.usages()),
            prefix=prefix_usage(pool, block_bytes),
            tenants=tenants,
            requests=request_usages(pool, holdings, block_bytes),
            unowned_bytes=dict(self._runner.unowned_bytes),
            conversions=dict(self._runner.conversions),
            free_bytes=free_bytes,
        )

    def standstill(self, bound_ns: int) -> str | None:
        """See RuntimeHandle."""
        if self._engine is None:
            return None
        try:
            found = standstill(self._engine.scene(), bound_ns)
        except RuntimeError:  # a container changed while it was read, so the engine moves
            return None
        if found is None:
            return None
        frames = sys._current_frames()  # noqa: SLF001 - the documented way to another thread's stack
        places = list(places_from(frames.get(self._thread.ident or 0) if self._thread is not None else None))
        if any(module_of(frame).startswith("faults.") for frame, _ in places):
            return None  # a fault holds the engine's thread
        return f"{found}; the engine's thread is {where(places, self._engine.steps)}"

    def drain(self) -> None:
        """Refuses new requests from now on. Call it on the engine's thread."""
        assert self._engine is not None
        self._engine.drain()

    def close(self) -> None:
        """Asks the engine's thread to end. It does not wait for a hung launch, which runs on a daemon thread."""
        self._closing = True
        self.mailbox.wake()
        if self._engine is not None:
            self._device.close()

    def _serve(self, engine: Engine, maintenance: MaintenanceLoop) -> None:
        compute_alone()
        try:
            while not self._closing:
                self.turn()
                waits = [wait_s for wait_s in (engine.wait_s(), maintenance.wait_s()) if wait_s is not None]
                self.mailbox.wait(min(waits, default=None))
        except BaseException as error:  # after any error here the process can't serve and must report it
            self._crash = DeviceLost(f"the engine's thread ended: {self.env.tell_exception(error, engine.steps)}")
            self.env.tell("fatal", "engine_thread", str(self._crash))
            raise


def _info(settings: EngineConfig, directory: Path, digest: str) -> dict[str, object]:
    capabilities = ["ledger", "kv_live", "pid"]
    return {
        "model": directory.name,
        "model_directory": str(directory),
        "weights_digest": digest,
        "kv_blocks": settings.kv_blocks,
        "block_tokens": settings.block_tokens,
        "torch_threads": settings.torch_threads,
        "exact": settings.exact,
        "prefix_cache": settings.prefix_cache,
        "capabilities": ["arm", *capabilities, "exact"] if settings.faults else capabilities,
        "versions": {name: version(name) for name in ("torch", "safetensors", "tokenizers")}
        | {"python": platform.python_version(), "torch_build": torch.__version__},
    }
