"""Three ways to hold KV, on one trace of requests; a part of allocators.py.

The share of held slots that hold no token, over held slots, while each step runs; a step counts as often as it has
tokens.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.allocators_heaps import real_env
from runtime.core.owner import Owner
from runtime.memory.kv.paged import PagedPool

BLOCK_TOKENS = 16
BUDGET_TOKENS = 512
SLOTS = 32


@dataclass
class Served:
    name: str
    prompt: int
    output: int
    output_max: int
    written: int = 0
    blocks: int = 0
    reserved: int = 0


def kv(options: argparse.Namespace) -> list[str]:
    """One row a strategy."""
    rows = [
        f"KV, 400 requests, {SLOTS} at once, pages of {BLOCK_TOKENS}, chunks of {BUDGET_TOKENS}, seed {options.seed}"
    ]
    rows.append(f"{'':26}{'unused':>9}{'at rest':>9}{'seed says':>11}")
    for name, says in (("contiguous", 38.2), ("paged", 12.4), ("paged, chunked", 8.7)):
        in_step, at_rest = unused(name, options.seed)
        rows.append(f"{name:26}{in_step:9.1%}{at_rest:9.1%}{says:10.1f}%")
    return rows


def unused(strategy: str, seed: int) -> tuple[float, float]:
    """Unused share of held slots while steps run, and when each has ended."""
    env = real_env()
    pool = PagedPool(env, 32 * 1024, BLOCK_TOKENS)
    waiting = list(_sequences(seed))[::-1]
    running: list[Served] = []
    held_running = used_running = held_rest = used_rest = 0
    while waiting or running:
        while waiting and len(running) < SLOTS:
            running.append(waiting.pop())
        plan = _plan(running, chunked=strategy == "paged, chunked")
        for one, tokens in plan:
            _hold(pool, one, tokens, contiguous=strategy == "contiguous")
        step_tokens = sum(tokens for _, tokens in plan)
        held = sum(one.reserved or one.blocks * BLOCK_TOKENS for one in running)
        held_running += held * step_tokens
        used_running += sum(one.written for one in running) * step_tokens
        for one, tokens in plan:
            one.written += tokens
        held_rest += held * step_tokens
        used_rest += sum(one.written for one in running) * step_tokens
        for one in [one for one in running if one.written >= one.prompt + one.output]:
            running.remove(one)
            pool.release(Owner(one.name), env.ledger.held("kv", one.name), None)
    assert pool.count().free == pool.blocks
    return 1 - used_running / held_running, 1 - used_rest / held_rest


def _sequences(seed: int) -> Iterator[Served]:
    rng = random.Random(f"{seed}/kv")
    for n in range(400):
        prompt = min(4096, max(16, int(rng.lognormvariate(6.2, 1.0))))
        output_max = rng.choice((128, 256, 512))
        yield Served(f"r{n}", prompt, min(output_max, max(1, int(rng.expovariate(1 / 160)))), output_max)


def _plan(running: Sequence[Served], chunked: bool) -> list[tuple[Served, int]]:
    """One token for each that decodes; then prompts in order: a chunk that ends at a page, or whole (at least one)."""
    plan = [(one, 1) for one in running if one.written >= one.prompt]
    left = BUDGET_TOKENS - len(plan)
    for one in running:
        rest = one.prompt - one.written
        if rest <= 0:
            continue
        if chunked:
            tokens = rest if rest <= left else left // BLOCK_TOKENS * BLOCK_TOKENS
        else:
            tokens = rest if rest <= left or left == BUDGET_TOKENS - len(plan) else 0
        if tokens <= 0:
            break
        plan.append((one, tokens))
        left -= tokens
    return plan


def _hold(pool: PagedPool, one: Served, tokens: int, contiguous: bool) -> None:
    if contiguous:
        one.reserved = one.prompt + one.output_max
        return
    need = pool.blocks_for(one.written + tokens) - one.blocks
    if need > 0:
        pool.take(Owner(one.name), need)
        one.blocks += need
