"""One suite for both worlds: tensors damaged at a boundary of a step, with the engine above and its clients beside.

The torch world damages real tensors; a watcher of every operator says whether a kernel was given one.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from faults import Catalogue, Faults, FaultSpec, Scope, When, parse_do
from runtime.contract.points import POINTS
from runtime.contract.spec import TensorFacts
from runtime.contract.step import CHUNK, HEAD, INPUTS, LAYER, SAMPLE, ModelShape, decode_graph
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Mailbox, Submit
from runtime.core.work import NO_BLOCK, Sampling
from runtime.device.accounted import AccountedModel
from runtime.device.cpu import CpuDevice
from runtime.device.facts import TorchTensors
from runtime.device.hash_model import HashModel
from runtime.device.sim import SimDevice
from runtime.device.virtual_time import VirtualTime
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.kv.paged import PagedPool
from runtime.memory.spans.upstream import Reserve
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner
from runtime.scheduling.scheduler import Limits
from tests.contract.device.worlds import FlatCosts
from tests.runtime.fakes import SECOND, Heard, SetClock

MODEL = functools.cache(default_model)
BLOCKS, BLOCK_TOKENS = 24, 4
LIMITS = Limits(16, 4, 100, expected_output=0.0)
PROMPTS = [(33, 34, 35), (36, 37), tuple(range(40, 60)), (70,)]
WORDS = ("rank", "shape", "dtype", "stride", "device", "align")
REFUSED = ("rank", "shape", "device")


class Watcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells whether an operator was given a tensor that a fault has damaged."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.damaged: list[Tensor] = []
        self.given: list[str] = []
        self.looking = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        flat = [*args, *(kwargs or {}).values()]
        if self.looking and any(one is other for one in flat for other in self.damaged):
            self.given.append(str(func))
        return func(*args, **(kwargs or {}))


class World:
    """An engine with requests in it; `run` plays it to its end."""

    def __init__(self, clock: Any) -> None:
        catalogue = Catalogue(POINTS)
        self.fires: list[Any] = []
        self.faults = Faults(catalogue, clock.now_ns, self.fires.append, lambda state: None)
        self.mailbox = Mailbox(100)
        self.env = Env(clock, 0, self.faults, Ledger(self.mailbox.wake))
        self.pool = PagedPool(self.env, BLOCKS, BLOCK_TOKENS)
        self.sink = Heard()
        self.watcher: Watcher | None = None

    def start(self, device: Any) -> None:
        self.device = device
        self.engine = Engine(self.env, device, self.pool, self.sink, self.mailbox, LIMITS, Bounds(60.0, 600.0))

    def arm(self, do: str, graph: str | None = None, **when: Any) -> None:
        scope = Scope() if graph is None else Scope(graph=graph)
        self.faults.arm([FaultSpec(id="f", n=0, do=parse_do(do), when=When(**when), scope=scope)])

    def submit(self, name: str, prompt: Sequence[int], tokens: int = 5) -> None:
        assert self.mailbox.offer(Submit(name, tuple(prompt), tokens, Sampling(), 0, 1000 * SECOND))

    def turn(self) -> None:
        raise NotImplementedError

    def run(self) -> dict[str, list[int]]:
        self.engine.step()
        while self.engine.requests or self.engine.status.flight_ns is not None:
            self.turn()
        return self.sink.tokens

    @property
    def marks(self) -> dict[str, int]:
        return {name: n for name, n in self.env.counters.total.items() if name.startswith("contract.")}

    def ends(self, names: Sequence[str]) -> list[tuple[int, str | None]]:
        return [(self.sink.ended[name].end.http, self.sink.ended[name].end.code) for name in names]


class SimWorld(World):
    def __init__(self) -> None:
        self.clock = VirtualTime()
        super().__init__(self.clock)
        shape = ModelShape(blocks=BLOCKS + 1, block_tokens=BLOCK_TOKENS, tokens_max=16, samples_max=4)
        model = AccountedModel(HashModel(BLOCKS, BLOCK_TOKENS, 1), self.env, Reserve(1 << 26), shape)
        self.start(SimDevice({"": model}, self.pool.plane, self.env, self.clock, FlatCosts()))

    def turn(self) -> None:
        self.clock.step()
        self.engine.step()


class TorchWorld(World):
    """Its device's worker thread runs under a Watcher."""

    def __init__(self) -> None:
        super().__init__(SetClock())
        config = read_config(MODEL())
        decoder = Decoder(config, load_weights(MODEL(), config))
        self.model = ModelRunner(decoder, PagedKv(config, BLOCKS, BLOCK_TOKENS), self.env)
        self.watcher = watcher = Watcher()
        tensors = self.model.contract.binder._tensors = WatchedTensors(watcher)
        assert tensors.watcher is watcher
        attempt = self.model.contract.attempt

        def watched(work: Any, run: Any) -> Any:
            with watcher:
                return attempt(work, run)

        self.model.contract.attempt = watched  # type: ignore[method-assign]
        self.start(CpuDevice({"": self.model}, self.pool.plane, self.env, threads=1))

    def turn(self) -> None:
        self.mailbox.wait(10.0)
        self.engine.step()


class WatchedTensors(TorchTensors):
    """Keeps what it makes while damage is done: repairs have every rule of the contract, damage has not."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def laid_out(self, tensor: Tensor, facts: TensorFacts) -> Tensor:
        self.watcher.looking = False
        made = super().laid_out(tensor, facts)
        self.watcher.looking = True
        if not any(tensor is one for one in self.watcher.damaged):  # else it is the repair of that one
            self.watcher.damaged.append(made)
        return made


WORLDS = {"torch": TorchWorld, "virtual": SimWorld}


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = WORLDS[request.param]()
    yield made
    made.faults.heal_all("shutdown")
    made.device.close()


@pytest.fixture(scope="module")
def plain() -> dict[type[World], dict[str, list[int]]]:
    """Tokens without a fault, by world."""
    return {kind: served(kind()) for kind in WORLDS.values()}


def served(world: World) -> dict[str, list[int]]:
    for at, prompt in enumerate(PROMPTS):
        world.submit(str(at), prompt)
    tokens = world.run()
    world.device.close()
    return tokens


@pytest.mark.parametrize("graph", [INPUTS, "decode", CHUNK, LAYER, HEAD, SAMPLE])
@pytest.mark.parametrize("word", WORDS)
def test_one_damaged_tensor_is_mended_or_prepared_again_and_no_token_changes(
    world: World, plain: dict[type[World], dict[str, list[int]]], word: str, graph: str
) -> None:
    if graph == "decode" and isinstance(world, TorchWorld):
        graph = decode_graph(mixed=False, by_page=True)
    world.arm(f"contract.bind: corrupt {word}", graph, times=1, skip=1 if graph == LAYER else 0)
    assert served(world) == plain[type(world)]
    assert [fire.point for fire in world.fires] == ["contract.bind"]
    marks = world.marks
    assert marks.pop("contract.violation") == 1
    mended = {"contract.copied": 1}, {"contract.cast": 1}
    if word in REFUSED:
        assert marks == {"contract.rebuilt": 1}
    elif graph != LAYER:
        assert marks in (*mended, *([{"contract.rebuilt": 1}] if word in ("dtype", "stride") else []))
    else:
        assert marks in (*mended, {"contract.rebuilt": 1})
    if world.watcher is not None:
        assert world.watcher.damaged
        assert world.watcher.given == []


@pytest.mark.parametrize("word", REFUSED)
@pytest.mark.parametrize("graph", [INPUTS, LAYER, HEAD, SAMPLE])
def test_a_step_damaged_twice_ends_its_batch_and_only_that(
    world: World, plain: dict[type[World], dict[str, list[int]]], word: str, graph: str
) -> None:
    world.arm(f"contract.bind: corrupt {word}", graph, times=2)
    for at in (0, 1):
        world.submit(str(at), PROMPTS[at])
    world.engine.step()
    for at in (2, 3):
        world.submit(str(at), PROMPTS[at])
    world.run()
    assert world.ends(["0", "1"]) == [(500, "contract_violation")] * 2
    for name in ("2", "3"):
        assert world.sink.tokens[name] == plain[type(world)][name]
    assert world.marks == {"contract.violation": 2, "contract.rebuilt": 1, "contract.refused": 1}
    rows = world.engine.audit("drain")
    assert [row for row in rows if row.expected is not None and row.value != row.expected] == []
    if world.watcher is not None:
        assert world.watcher.given == []


def test_a_row_without_its_table_is_failed_and_its_bystanders_are_not(
    world: World, plain: dict[type[World], dict[str, list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = world.device.launch

    def one_table_lost(work: Any, reads: Any, writes: Any) -> Any:
        tables = work.block_tables.copy()
        tables[[name == "1" for name in work.request_ids]] = NO_BLOCK
        keep = [at for at, name in enumerate(work.request_ids) if name != "1"]
        if len(keep) < work.rows:
            monkeypatch.setattr(world.pool.plane, "verify", lambda work, reads: ())
        else:
            monkeypatch.undo()
        return launch(replace(work, block_tables=tables), reads, writes)

    world.device.launch = one_table_lost
    tokens = served(world)
    assert world.ends(["0", "1", "2", "3"]) == [(200, None), (500, "contract_violation"), (200, None), (200, None)]
    for name in ("0", "2", "3"):
        assert tokens[name] == plain[type(world)][name]


def test_a_lying_cache_changes_no_token(world: World, plain: dict[type[World], dict[str, list[int]]]) -> None:
    if isinstance(world, TorchWorld):  # a cache with one entry has nothing to lie with
        with torch.inference_mode():
            world.model.contract.cross(HEAD, (torch.zeros(1, 192),), 1)
            world.model.contract.cross(HEAD, (torch.zeros(2, 192),), 2)
    world.arm("contract.cache: lie", times=None)
    assert served(world) == plain[type(world)]
    assert world.marks["contract.cache_refused"] == len(world.fires) > 0
