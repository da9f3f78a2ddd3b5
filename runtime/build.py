"""Wires the torch parts to the engine: model directory -> decoder, KV pages, device, pool, engine thread."""

import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import torch

from faults import FaultSpec
from runtime.assembly import HostSegments, assemble, make_block_pool, make_env
from runtime.config import EngineConfig, read_engine_config
from runtime.contract.registry import ContractKey
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, RuntimeFailure
from runtime.core.messages import Mailbox, Sink
from runtime.device.cpu import CpuDevice
from runtime.device.device_audit import device_rows
from runtime.device.malloc import keep_freed_memory
from runtime.device.mem_info import MemInfo
from runtime.device.threads import compute_alone
from runtime.device.torch_mover import TorchMover
from runtime.device.torch_segments import Filler, TorchSegments, carved, placed
from runtime.engine import Chain, Engine, eager_only
from runtime.guard.audit import AuditRow
from runtime.memory.assembly import MIB, PoolSizes, SpanMover, device_pools
from runtime.memory.kv.figures import kv_usage, prefix_usage, request_usages, tenant_usages
from runtime.memory.kv.paged import PagedPool
from runtime.memory.maintenance import MaintenanceLoop
from runtime.memory.spans.pools import Pools
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
from runtime.models.tokenizer import Tokenizer, read_tokenizer
from runtime.models.warm import PROMPT_TOKENS, ROWS, warm_up
from runtime.models.weights import weights_bytes
from runtime.models.workspace import Workspace, scratch_bytes
from runtime.server.ports import EventSink
from runtime.stats import EngineStats

KV_SHARE = 0.5
"""Of the free memory, for KV when `kv_blocks` is 0; never more than all sequences at full length."""
FREE_BYTES_MIN = 64 * MIB
"""Below it, segments that hold nothing are given back to the system."""


def build_served(engine: Mapping[str, object], evidence: EventSink, armed: Sequence[FaultSpec] = ()) -> "Runtime":
    """The runtime that `engine` (knobs) describes, ready to start. Raises ValueError saying what is wrong with it.

    `armed` are faults that shall be there before the weights are read.
    """
    knobs = read_engine_config(engine)
    keep_freed_memory()
    compute_alone()
    directory = Path(knobs.model) if knobs.model is not None else default_model()
    config = read_config(directory)
    mailbox = Mailbox(knobs.waiting_max)
    env = make_env(knobs, WallClock(), mailbox.wake, evidence.fire, evidence.fault)
    if armed:
        env.faults.arm(armed)
    if knobs.kv_blocks == 0:
        blocks = _blocks_that_fit(knobs, config, MemInfo(env).free_bytes())
        knobs = knobs.model_copy(update={"kv_blocks": blocks})
    digest = weights_digest(directory)
    pool = make_block_pool(knobs, env, digest, timer=time.perf_counter_ns)
    segments = TorchSegments()
    space = _step_space(knobs, config, env, segments)
    in_weights = placed(segments, space.pools[PoolKind.WEIGHT], PoolKind.WEIGHT)
    weights = load_weights(directory, config, make=in_weights, faults=env.faults, digest=digest)
    in_kv = carved(segments, pool.name, kv_bytes(config, knobs.kv_blocks, knobs.block_tokens))
    kv = PagedKv(config, knobs.kv_blocks, knobs.block_tokens, make=in_kv)
    model = ModelRunner(
        Decoder(config, weights, batch_invariant=knobs.exact, space=space),
        kv,
        env,
        ContractKey("", directory.name, digest),
    )
    return Runtime(knobs, env, mailbox, pool, model, read_tokenizer(directory), directory, digest)


def _blocks_that_fit(knobs: EngineConfig, config: DecoderConfig, free_bytes: int | None) -> int:
    """What `kv_blocks = 0` comes to: a share of what the device says is free. Raises ValueError when that is none."""
    if free_bytes is None:
        raise ValueError("kv_blocks = 0 takes what is free, and this device can't say how much that is; give a number")
    one = config.kv_bytes(knobs.block_tokens)
    left = int(free_bytes * KV_SHARE) - weights_bytes(config)
    most = knobs.seqs_max * -(-config.context_max // knobs.block_tokens)
    if left < one:
        raise ValueError(f"kv_blocks = 0: {free_bytes} B are free, and no block of {one} B fits beside the weights")
    return min(left // one, most)


def _step_space(knobs: EngineConfig, config: DecoderConfig, env: Env, segments: TorchSegments) -> Workspace:
    """The device's pools, for the largest step that these knobs allow."""
    tokens = knobs.token_budget + PAD  # batch-invariant mode pads
    scratch = scratch_bytes(config, min(config.context_max, knobs.kv_blocks * knobs.block_tokens))
    sizes = PoolSizes(
        weight=weights_bytes(config),
        step=step_bytes(config, max(tokens, PROMPT_TOKENS), max(knobs.seqs_max, *ROWS)),
        workspace=2 * scratch,
    )
    pools = device_pools(env, segments, sizes, poison=_poison(knobs, segments), timer=time.perf_counter_ns)
    return Workspace(config, segments, pools, scratch)


def _poison(knobs: EngineConfig, segments: TorchSegments) -> Callable[[str], Filler] | None:
    return segments.filler if knobs.poison else None


class WallClock:
    """CLOCK_MONOTONIC, the one clock of a live run."""

    def now_ns(self) -> int:
        """The present."""
        return time.monotonic_ns()


class Runtime:
    """An engine on a thread of its own; what the server needs of it is `runtime.server.ports.RuntimeHandle`."""

    def __init__(
        self,
        knobs: EngineConfig,
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
        self.context_tokens = min(model.decoder.config.context_max, knobs.kv_blocks * knobs.block_tokens)
        self.info = _info(knobs, directory, digest)
        self._knobs = knobs
        self._pool = pool
        self._paged_model = model
        self._space = model.decoder.space
        self._pools: Pools | None = None
        self._maintenance: MaintenanceLoop | None = None
        self._engine: Engine | None = None
        self._crash: DeviceLost | None = None
        self._closing = False

    @property
    def status(self) -> EngineStats:
        """The engine's latest snapshot."""
        return self._engine.status if self._engine is not None else EngineStats()

    @property
    def fatal(self) -> RuntimeFailure | None:
        """Why nothing can be served any more."""
        return self._crash or (self._engine.fatal if self._engine is not None else None)

    def start(self, sink: Sink, *, threaded: bool = True, chain: Chain = eager_only) -> None:
        """Start the device's worker, and the engine's thread unless the caller makes its turns (`turn`)."""
        assert self._engine is None, "a runtime is started once"
        knobs = self._knobs
        pool, kv, segments = self._pool, self._paged_model.kv, self._space.segments
        copies = TorchMover(segments, "io", (*kv.keys, *kv.values), pool.plane)
        device = CpuDevice({"": self._paged_model}, pool.plane, self.env, threads=knobs.torch_threads, mover=copies)
        device.call(lambda: warm_up(self._paged_model, knobs.kv_blocks, knobs.block_tokens))
        host = HostSegments(segments, copies.block_bytes, segments.move, _poison(knobs, segments), time.perf_counter_ns)
        made = assemble(knobs, self.env, self.mailbox, pool, device, host, sink, chain)
        self._engine, self._pools, swap = made.engine, made.host_pools, made.swap
        self._block_bytes = copies.block_bytes
        self._device = device
        mover = SpanMover(segments.move)
        if swap is not None:
            mover.held_by(swap.renew, swap.barrier)
        moves = {PoolKind.IO: mover} if swap is not None else {}
        info = MemInfo(self.env)
        self._maintenance = MaintenanceLoop(
            self.env, self._pools, moves, mover.barrier, info.free_bytes, FREE_BYTES_MIN, self._measure
        )
        if threaded:
            threading.Thread(
                target=self._serve, args=[self._engine, self._maintenance], name="engine", daemon=True
            ).start()

    def turn(self) -> None:
        """One step of the engine, and a look after memory; on the engine's thread."""
        assert self._engine is not None and self._maintenance is not None, "start comes first"
        self._engine.step()
        self._maintenance.turn()

    def audit(self, scope: str) -> list[AuditRow]:
        """The reclamation audit; only on the engine's thread."""
        assert self._engine is not None
        return self._engine.audit(scope) + device_rows(self.env, self._space.held(), scope)

    @property
    def memory(self) -> MemoryFigures:
        """Figures that are at most a second old; from any thread."""
        return MemoryFigures() if self._maintenance is None else self._maintenance.figures

    def measure_memory(self) -> MemoryFigures:
        """Figures of every pool, now; only on the engine's thread."""
        return self._measure(self.memory.free_bytes)

    def _measure(self, free_bytes: int | None) -> MemoryFigures:
        engine, pools, pool, block_bytes = self._engine, self._pools, self._pool, self._block_bytes
        assert engine is not None and pools is not None, "start comes first"
        holdings = engine.holdings()
        tenants = tenant_usages(pool, holdings, block_bytes)
        io = replace(pools.usage(PoolKind.IO), leaks=engine.leaked("io"))
        return MemoryFigures(
            pools=(kv_usage(pool, tenants, engine.leaked(pool.name), block_bytes), io, *self._space.usages()),
            prefix=prefix_usage(pool, block_bytes),
            tenants=tenants,
            requests=request_usages(pool, holdings, block_bytes),
            unowned_bytes=dict(self._paged_model.unowned_bytes),
            conversions=dict(self._paged_model.conversions),
            free_bytes=free_bytes,
        )

    def drain(self) -> None:
        """Take nobody new; only on the engine's thread."""
        assert self._engine is not None
        self._engine.drain()

    def close(self) -> None:
        """Ask the engine's thread to end; a hung launch is left to its daemon thread."""
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
        except BaseException as error:  # whatever it is, nothing can be served after it and the process must say so
            self._crash = DeviceLost(f"the engine's thread ended: {type(error).__name__}: {error}")
            self.env.tell("fatal", "engine_thread", str(self._crash))
            raise


def _info(knobs: EngineConfig, directory: Path, digest: str) -> dict[str, object]:
    return {
        "model": directory.name,
        "model_directory": str(directory),
        "weights_digest": digest,
        "kv_blocks": knobs.kv_blocks,
        "block_tokens": knobs.block_tokens,
        "torch_threads": knobs.torch_threads,
        "exact": knobs.exact,
        "prefix_cache": knobs.prefix_cache,
        "capabilities": ["arm", "ledger", "kv_live", "pid", "exact"] if knobs.faults else ["ledger", "kv_live", "pid"],
        "versions": {name: version(name) for name in ("torch", "safetensors", "tokenizers")}
        | {"python": platform.python_version(), "torch_build": torch.__version__},
    }
