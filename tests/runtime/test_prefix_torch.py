"""The prefix cache on the real device and model: greedy tokens are those of the oracle, hit or miss."""

import random
from pathlib import Path

import pytest

from faults import DisabledFaults
from harness.oracle.model import Model
from harness.oracle.reply import Ask, replies
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Mailbox, Submit
from runtime.core.work import Sampling
from runtime.device.cpu import CpuDevice
from runtime.device.torch_mover import TorchMover
from runtime.device.torch_segments import TorchSegments
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.host import HostMemory, HostSegments
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.preemption import Mode
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import SECOND, Heard, SetClock
from tests.runtime.models.worlds import open_paged, random_model

BLOCK_TOKENS = 8
OUTPUT = 12


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model")
    random_model("Llama").save_pretrained(made)
    return made


def serve(
    directory: Path, prompts: list[list[int]], blocks: int, cache: bool, exact: bool, swap_blocks: int = 0
) -> tuple[Heard, Env]:
    """All prompts, four at a time, through engine, device and model. With `swap_blocks` who is preempted is swapped."""
    mailbox = Mailbox(len(prompts))
    env = Env(SetClock(), 0, DisabledFaults(), Ledger(mailbox.wake))
    pool = PagedPool(env, blocks, BLOCK_TOKENS, prefix_cache=cache)
    model = open_paged(directory, blocks=blocks, block_tokens=BLOCK_TOKENS, exact=exact)
    host = TorchSegments()
    mover = TorchMover(host, "io", (*model.kv.keys, *model.kv.values), pool.plane)
    device = CpuDevice({"": model}, pool.plane, env, mover=mover)
    segments = HostSegments(host, mover.block_bytes, host.move)
    swap = HostMemory(env, pool, segments, swap_blocks, device.copy).swap
    sink = Heard()
    mode = Mode.SWAP if swap_blocks else Mode.RECOMPUTE
    limits = Limits(40, 4, len(prompts), expected_output=0.0, preemption=mode)
    engine = Engine(env, device, pool, sink, mailbox, limits, Bounds(), swap)
    for index, prompt in enumerate(prompts):
        assert mailbox.offer(Submit(str(index), tuple(prompt), OUTPUT, Sampling(), 0, 1000 * SECOND))
    engine.step()
    while len(sink.ended) < len(prompts):
        mailbox.wait(10.0)
        engine.step()
    device.close()
    return sink, env


@pytest.mark.parametrize("exact", [False, True], ids=["plain", "exact"])
def test_tokens_of_requests_that_share_prefixes_are_those_of_the_oracle(directory: Path, exact: bool) -> None:
    rng = random.Random(3)
    stems = [[rng.randrange(211) for _ in range(n)] for n in (33, 64, 20)]
    prompts = [stems[n % 3][: rng.randrange(1, 70)] + [rng.randrange(211) for _ in range(n % 4)] for n in range(30)]
    expected = [reply.tokens for reply in replies(Model(directory), [Ask(prompt, OUTPUT) for prompt in prompts])]
    for cache, blocks in ((False, 64), (True, 64), (True, 24)):
        sink, env = serve(directory, prompts, blocks, cache, exact)
        assert not [event for event in env.events.take() if event.kind == "invariant"]
        assert [sink.tokens[str(n)] for n in range(len(prompts))] == expected, (cache, blocks)
        assert env.counters.total["kv.tag_breach"] == 0
        cached = sum(ended.tokens_cached for ended in sink.ended.values())
        assert (cached > 400) if cache and blocks == 64 else (cached >= 0 if cache else cached == 0)
        assert (env.counters.total["kv.evict"] > 0) == (cache and blocks == 24)


@pytest.mark.parametrize("cache", [False, True])
def test_tokens_of_requests_that_were_swapped_are_those_of_the_oracle(directory: Path, cache: bool) -> None:
    rng = random.Random(5)
    prompts = [[rng.randrange(211) for _ in range(rng.randrange(6, 16))] for _ in range(16)]
    expected = [reply.tokens for reply in replies(Model(directory), [Ask(prompt, OUTPUT) for prompt in prompts])]
    sink, env = serve(directory, prompts, blocks=9, cache=cache, exact=False, swap_blocks=40)
    assert [sink.tokens[str(n)] for n in range(len(prompts))] == expected
    assert env.counters.total["swap.out"] == env.counters.total["swap.in"] >= 3
    assert env.counters.total["kv.tag_breach"] == 0
    assert not [event for event in env.events.take() if event.kind == "invariant"]
