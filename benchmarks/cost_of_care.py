"""What contract, KV tags and ledger cost a live decode step: the same engine with one of them taken out.

    python -m benchmarks.cost_of_care [--rows 1 8 32] [--rounds 9] [--steps 96]

    all           as it is served: inputs bound to their contract, KV tags reckoned, compared and stamped, owners kept
    no contract   tensors pass the boundaries of a step and nobody looks at them
    no tags       no tag is made, compared or written
    no ledger     nobody is noted as owner; blocks go back as before
    none          without all three

Contenders take turns (A B C D E A B ...) on the embedded model with one torch thread; a figure is the mean of
`--steps` decode steps, the table shows medians over the rounds. Share: of the step with all, by which the step without
it is shorter; the difference of two medians, so below what the spread says it is noise. Nothing here is a knob: the
benchmark takes parts out of the engine, the server always has them.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from unittest import mock

import torch

from faults import DisabledFaults
from runtime.build import WallClock
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Mailbox, Output, Submit
from runtime.core.work import Claims, Ints, Sampling, Work
from runtime.device.cpu import CpuDevice
from runtime.device.malloc import keep_freed_memory
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.kv.paged import PagedPool
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner
from runtime.scheduling import batch as batches
from runtime.scheduling.scheduler import Limits

BLOCK_TOKENS, PROMPT = 16, 64
PARTS = ("contract", "tags", "ledger")
CONTENDERS = {"all": (), **{f"no {part}": (part,) for part in PARTS}, "none": PARTS}


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=96)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    keep_freed_memory()
    print(f"{'rows':>4} {'':12} {'us a step':>22} {'share':>7}")
    for rows in given.rows:
        figures = measure(rows, given.rounds, given.steps)
        whole = statistics.median(figures["all"])
        for name, seen in figures.items():
            middle = statistics.median(seen)
            spread = f"{middle:.0f} ({min(seen):.0f}-{max(seen):.0f})"
            share = "" if name == "all" else f"{(whole - middle) / whole:.1%}"
            print(f"{rows:4} {name:12} {spread:>22} {share:>7}")
    return 0


def measure(rows: int, rounds: int, steps: int) -> dict[str, list[float]]:
    """Microseconds a decode step by contender, one figure a round; a first round warms all up and is left out."""
    blocks = rows * (-(-(PROMPT + steps + 8) // BLOCK_TOKENS) + 1)
    directory = default_model()
    config = read_config(directory)
    model = ModelRunner(Decoder(config, load_weights(directory, config)), PagedKv(config, blocks, BLOCK_TOKENS))
    figures: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for turn in range(rounds + 1):
        for name, missing in CONTENDERS.items():
            took_us = decode(model, blocks, rows, steps, missing)
            if turn:
                figures[name].append(took_us)
    return figures


def decode(model: ModelRunner, blocks: int, rows: int, steps: int, missing: Sequence[str]) -> float:
    """Microseconds a step of `rows` requests that decode, without the parts in `missing`."""
    mailbox, sink = Mailbox(rows), _Counter()
    tags = mock.patch.object(batches, "flush_hashes") if "tags" in missing else nullcontext()
    with tags, without_contract(model, "contract" in missing):
        ledger = _NoLedger(mailbox.wake) if "ledger" in missing else Ledger(mailbox.wake)
        env = Env(WallClock(), 0, DisabledFaults(), ledger)
        pool = PagedPool(env, blocks, BLOCK_TOKENS)
        if isinstance(ledger, _NoLedger):
            ledger.pool = pool
        if "tags" in missing:
            pool.plane = _NoPlane()  # type: ignore[assignment]
        device = CpuDevice({"": model}, pool.plane, env, threads=1)
        engine = Engine(env, device, pool, sink, mailbox, Limits(4096, rows, rows), Bounds())
        now_ns = env.clock.now_ns()
        for row in range(rows):
            prompt = tuple((row * 7 + at * 13) % 200 for at in range(PROMPT))
            mailbox.offer(Submit(str(row), prompt, steps + 4, Sampling(), now_ns, now_ns + 600 * 10**9))
        began_ns = begun = 0
        engine.step()
        while sink.ended < rows:
            mailbox.wait(engine.wait_s())
            engine.step()
            if not began_ns and sink.tokens >= 2 * rows:
                began_ns, begun = sink.last_ns, sink.tokens
        took_ns = sink.last_ns - began_ns
        device.close()
    return took_ns / 1000 / ((sink.tokens - begun) / rows)


@contextmanager
def without_contract(model: ModelRunner, missing: bool) -> Iterator[None]:
    """Tensors pass the boundaries unlooked at, when `missing`."""
    if not missing:
        yield
        return
    with mock.patch.object(model.contract, "cross", lambda graph, tensors, *given, outputs=False: tensors):
        yield


class _Counter:
    """A sink that counts, and knows when it last heard something."""

    def __init__(self) -> None:
        self.tokens = self.ended = self.last_ns = 0
        self._clock = WallClock()

    def step(self, outputs: list[Output]) -> None:
        if outputs:
            self.last_ns = self._clock.now_ns()
        for output in outputs:
            self.tokens += len(output.tokens)
            self.ended += output.ended is not None


class _NoPlane:
    def hand_out(self, blocks: Sequence[int]) -> list[int]:
        return [0] * len(blocks)

    def verify(self, work: Work, reads: Claims) -> tuple[()]:
        return ()

    def compare(self, tables: Ints, reads: Claims) -> tuple[()]:
        return ()

    def stamp(self, work: Work) -> None:
        return None


class _NoLedger(Ledger):
    """Knows no owners; says of the pool what keeps its sum right."""

    pool: PagedPool

    def acquire(self, pool: str, owner: str, items: Sequence[int]) -> bool:
        return True

    def release(self, pool: str, owner: str, items: Sequence[int]) -> Sequence[int]:
        return items

    def live(self, pool: str) -> int:
        return self.pool.blocks - len(self.pool._free)

    def note(self, owner: str, t_ns: int, text: str) -> None:
        return None


if __name__ == "__main__":
    sys.exit(main())
