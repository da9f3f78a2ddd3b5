"""What the prefix cache costs the engine and what a hit saves, without a model: CPU time, best of some rounds.

python -m benchmarks.prefix_cache [--rounds 7]

step        one decode step of 32 rows: plan, bind, land, publish; a row crosses a block's edge every 16 steps
admission   a request of 1155 tokens (Azure's mean) that is given its first row, with nothing and with all cached
index       its parts for 72 blocks: keys, find, share and release, publish, evict
pool        all of it for a request of 72 blocks of prompt and 13 of answer, in a pool of 1000 that is always full: the
            answer's blocks are taken and published one by one, as each step ends
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.errors import LaunchError
from runtime.core.ledger import Ledger
from runtime.core.messages import Mailbox, Output, Submit
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.core.work import Claims, Copy, Sampled, Sampling, StepResult, Work
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import BlockHashes, salt_of
from runtime.memory.kv.tags import TagPlane
from runtime.scheduling.scheduler import Limits

BLOCK_TOKENS = 16
PROMPT = 1155
ROWS = 32


class _Clock:
    def now_ns(self) -> int:
        return time.monotonic_ns()


class _Deaf:
    def step(self, outputs: list[Output]) -> None:
        return None


class _Instant:
    """Every launch is done at once. Nothing is computed, only tags are written, or the engine would trust no block."""

    def __init__(self, env: Env, plane: TagPlane) -> None:
        self._env, self._plane = env, plane

    def launch(self, work: Work, reads: Claims, writes: Sequence[int]) -> Ticket:
        now_ns = self._env.clock.now_ns()
        self._plane.stamp(work)
        sampled = tuple(None if one is None else Sampled(7) for one in work.sampling)
        ticket = Ticket(work.step, work, now_ns, now_ns, StepResult(sampled))
        self._env.ledger.complete(ticket)
        return ticket

    def copy(self, copy: Copy) -> Ticket:
        raise LaunchError("this device has no host memory to copy to")

    def holds(self, ticket: Ticket) -> bool:
        return False

    def close(self) -> None:
        return None


class _Stage:
    def __init__(self, cache: bool, blocks: int = 8192) -> None:
        self.mailbox = Mailbox(1000)
        self.env = Env(_Clock(), 0, DisabledFaults(), Ledger())
        self.pool = PagedPool(self.env, blocks, BLOCK_TOKENS, prefix_cache=cache)
        limits = Limits(token_budget=1 << 20, seqs_max=ROWS, waiting_max=1000)
        device = _Instant(self.env, self.pool.plane)
        self.engine = Engine(self.env, device, self.pool, _Deaf(), self.mailbox, limits, Bounds())
        self._asked = 0

    def submit(self, prompt: Sequence[int], max_tokens: int) -> None:
        now_ns = self.env.clock.now_ns()
        name = str(self._asked)
        self._asked += 1
        self.mailbox.offer(Submit(name, tuple(prompt), max_tokens, Sampling(), now_ns, now_ns + 10**12))


def decode_step(cache: bool, steps: int = 160) -> float:
    """Microseconds a step."""
    stage = _Stage(cache)
    for row in range(ROWS):
        stage.submit([row * 1000 + at for at in range(row + 1, row + 65)], steps + 50)
    for _ in range(20):
        stage.engine.step()
    start = time.thread_time()
    for _ in range(steps):
        stage.engine.step()
    return (time.thread_time() - start) / steps * 1e6


def admission(cache: bool, hit: bool, requests: int = 20) -> float:
    """Microseconds from the mailbox to the launch of its first row, and its end."""
    stage = _Stage(cache)
    prompts = [[row * 3000 + at for at in range(PROMPT)] for row in range(requests)]
    for prompt in prompts if hit else ():
        stage.submit(prompt, 1)
        stage.engine.step()
        stage.engine.step()
    start = time.thread_time()
    for prompt in prompts:
        stage.submit(prompt, 1)
        stage.engine.step()
        stage.engine.step()
    assert sum(one.hits for one in stage.pool.accounts.values()) == (requests * 1152 if hit else 0)
    return (time.thread_time() - start) / requests * 1e6


def index_parts(requests: int = 20) -> dict[str, float]:
    """Nanoseconds a block of each part."""
    stage = _Stage(cache=True, blocks=72 * requests)
    pool, count = stage.pool, PROMPT // BLOCK_TOKENS
    prompts = [[row * 3000 + at for at in range(PROMPT)] for row in range(requests)]
    lines = [BlockHashes(BLOCK_TOKENS, salt_of("", "", "")) for _ in prompts]
    tables = [pool.take(Owner(str(row)), count) for row in range(requests)]

    def per_block(do: Callable[[int], object]) -> float:
        start = time.thread_time()
        for row in range(requests):
            do(row)
        return (time.thread_time() - start) / requests / count * 1e9

    owners = [Owner(str(row)) for row in range(requests)]
    found = {"keys": per_block(lambda row: lines[row].keys_for(prompts[row], count))}
    found["publish"] = per_block(
        lambda row: pool.publish(owners[row], *tables[row], lines[row].keys_for(prompts[row], count))
    )
    found["release"] = per_block(lambda row: pool.release(owners[row], tables[row][0], None))
    found["find"] = per_block(lambda row: pool.index.find(lines[row].keys_for(prompts[row], count)))
    found["share"] = per_block(lambda row: pool.share(owners[row], tables[row][0]))
    for row in range(requests):
        pool.release(owners[row], tables[row][0], None)
    found["evict and take"] = per_block(lambda row: pool.take(owners[row], count))
    return found


def pool_alone(requests: int = 300) -> float:
    """Microseconds a request, once the pool is full."""
    pool, chance, start = _Stage(cache=True, blocks=1000).pool, random.Random(1), 0.0
    one = Owner("one")
    prompts = [chance.choices(range(256), k=(72 + 13) * BLOCK_TOKENS) for _ in range(requests + 40)]
    for at, tokens in enumerate(prompts):
        if at == 40:
            start = time.thread_time()
        line = BlockHashes(BLOCK_TOKENS, salt_of("", "", ""))
        keys = line.keys_for(tokens, 72)
        assert not pool.index.find(keys)
        taken, generations = pool.take(one, 72)
        pool.publish(one, taken, generations, keys)
        blocks = list(taken)
        for full in range(73, 86):
            taken, generations = pool.take(one, 1)
            pool.publish(one, taken, generations, line.keys_for(tokens, full)[full - 1 :])
            blocks += taken
        pool.release(one, blocks, None)
    return (time.thread_time() - start) / requests * 1e6


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds = range(parser.parse_args().rounds)
    steps = [(decode_step(False), decode_step(True)) for _ in rounds]
    print(
        f"decode step of {ROWS} rows, us        off {min(s[0] for s in steps):7.1f}  on {min(s[1] for s in steps):7.1f}"
    )
    runs = [(admission(False, False), admission(True, False), admission(True, True)) for _ in rounds]
    off, miss, hit = (min(run[at] for run in runs) for at in range(3))
    print(f"request of {PROMPT} tokens, us         off {off:7.1f}  miss {miss:7.1f}  hit {hit:7.1f}")
    parts = [index_parts() for _ in rounds]
    print(f"the pool alone, us a request {min(pool_alone() for _ in rounds):7.1f}")
    print("ns a block: " + ", ".join(f"{name} {min(each[name] for each in parts):.0f}" for name in parts[0]))


if __name__ == "__main__":
    main()
