"""Tokens a second on the CPU: the real engine and device against `transformers`, same weights, same requests.

    python -m benchmarks.throughput_cpu [--threads 2] [--rounds 3] [--requests 32] [--prompt 64] [--output 128]

Contenders take turns (A B C A B C ...) and the median counts, since a noisy machine drifts by 30 % in a minute. Each
line shows tokens per second of CPU time, which neighbours disturb less, and minor page faults: unsettled malloc or
fresh buffers hide in them.

    engine         runtime.engine over CpuDevice: scheduler, tag plane, sampler, sink; prompts arrive all at once
    device         the same launches handed to CpuDevice by a script: what the model and the device alone can do
    static         transformers.generate on one full padded batch (its best case: equal lengths, no scheduler)
    continuous     transformers.generate_batch, where the installed version runs it on a CPU
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from faults import NullFaults
from runtime.build import WallClock
from runtime.core.edge import Mailbox, Output, Submit
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.work import Sampling, Work
from runtime.device.cpu import CpuDevice
from runtime.device.malloc import keep_freed_memory, minor_faults
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.kv.paged import PagedPool
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner
from runtime.scheduling.scheduler import Limits

BLOCK_TOKENS = 16
Prompts = list[list[int]]
Contender = Callable[[Prompts, int], int]
"""Runs all prompts to `output` new tokens each and returns how many tokens it made."""


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--output", type=int, default=128)
    parser.add_argument("--skip", action="append", default=[])
    given = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(given.threads)
    theirs = small_llama()
    generator = torch.Generator().manual_seed(1)
    shape = (given.requests, given.prompt)
    prompts: Prompts = torch.randint(0, theirs.config.vocab_size, shape, generator=generator).tolist()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        blocks = given.requests * (-(-(given.prompt + given.output) // BLOCK_TOKENS) + 1)
        model = open_model(Path(folder), blocks)
        contenders: dict[str, Contender] = {
            "engine": lambda prompts, output: run_engine(model, blocks, given.threads, prompts, output),
            "device": lambda prompts, output: run_device(model, blocks, given.threads, prompts, output),
            "static": lambda prompts, output: run_static(theirs, prompts, output),
            "continuous": lambda prompts, output: run_continuous(theirs, prompts, output),
        }
        measure({name: run for name, run in contenders.items() if name not in given.skip}, given, prompts)


def measure(contenders: dict[str, Contender], given: argparse.Namespace, prompts: Prompts) -> None:
    """Warm each up, then let them take turns."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    thrift: dict[str, list[float]] = {name: [] for name in contenders}
    faults: dict[str, list[float]] = {name: [] for name in contenders}
    failed: dict[str, str] = {}
    for turn in range(given.rounds + 1):
        for name, run in contenders.items():
            if name in failed:
                continue
            before, start, busy = minor_faults(), time.perf_counter(), time.process_time()
            try:
                tokens = run(prompts, given.output)
            except Exception as error:  # a contender that can't run here is a line of the table
                failed[name] = f"{type(error).__name__}: {error}".splitlines()[0][:90]
                continue
            if turn:
                rates[name].append(tokens / (time.perf_counter() - start))
                thrift[name].append(tokens / (time.process_time() - busy))
                faults[name].append((minor_faults() - before) / given.output)
    print(
        f"{given.requests} x ({given.prompt} + {given.output}) tokens, {given.threads} threads, {given.rounds} rounds"
    )
    for name in contenders:
        if name in failed:
            print(f"{name:12} did not run: {failed[name]}")
            continue
        low, middle, high = min(rates[name]), statistics.median(rates[name]), max(rates[name])
        paged, per_cpu = statistics.median(faults[name]), statistics.median(thrift[name])
        print(
            f"{name:12} {middle:8.0f} tokens/s ({low:.0f}-{high:.0f}) {per_cpu:8.0f} per CPU s {paged:8.1f} faults/step"
        )


def small_llama() -> Any:
    """4 layers, hidden 128, random."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config).eval()


def open_model(directory: Path, blocks: int) -> ModelRunner:
    """Our decoder over the same weights."""
    config = read_config(directory)
    return ModelRunner(Decoder(config, load_weights(directory, config)), PagedKv(config, blocks, BLOCK_TOKENS))


class _Counter:
    """A sink that counts."""

    def __init__(self) -> None:
        self.tokens = 0
        self.ended = 0

    def step(self, outputs: list[Output]) -> None:
        for output in outputs:
            self.tokens += len(output.tokens)
            self.ended += output.ended is not None


def run_engine(model: ModelRunner, blocks: int, threads: int, prompts: Prompts, output: int) -> int:
    """Everything the server has but HTTP."""
    mailbox = Mailbox(len(prompts))
    env = Env(WallClock(), 0, NullFaults(), Ledger(mailbox.wake))
    pool = PagedPool(env, blocks, BLOCK_TOKENS)
    device = CpuDevice({"": model}, pool.plane, env, threads=threads)
    sink = _Counter()
    engine = Engine(env, device, pool, sink, mailbox, Limits(512, len(prompts), len(prompts)), Bounds())
    now_ns = env.clock.now_ns()
    for index, prompt in enumerate(prompts):
        mailbox.offer(Submit(str(index), tuple(prompt), output, Sampling(), now_ns, now_ns + 600 * 10**9))
    engine.step()
    while sink.ended < len(prompts):
        mailbox.wait(engine.wait_s())
        engine.step()
    device.close()
    return sink.tokens


def run_device(model: ModelRunner, blocks: int, threads: int, prompts: Prompts, output: int) -> int:
    """One prefill launch and then decode launches, each as soon as the one before is done."""
    done = threading.Event()
    env = Env(WallClock(), 0, NullFaults(), Ledger(done.set))
    device = CpuDevice({"": model}, _NoTags(), env, threads=threads)
    rows, length = len(prompts), len(prompts[0])
    table_blocks = -(-(length + output) // BLOCK_TOKENS)
    tables = [[index * rows + row for index in range(table_blocks)] for row in range(rows)]  # as a pool hands them out
    fresh = np.array(prompts)
    tokens = 0
    for start in (0, *range(length, length + output - 1)):
        done.clear()
        ticket = device.launch(_work(fresh, start, tables), (), ())
        done.wait()
        env.ledger.settle()
        if ticket.error is not None or ticket.result is None:
            raise RuntimeError("a launch failed") from ticket.error
        drawn = [sampled.token for sampled in ticket.result.sampled if sampled is not None]
        tokens += len(drawn)
        fresh = np.array(drawn)[:, None]
    device.close()
    return tokens


class _NoTags:
    def verify(self, work: Work, reads: object) -> tuple[()]:
        return ()

    def stamp(self, work: Work) -> None:
        return None


def _work(fresh: np.ndarray, start: int, tables: list[list[int]]) -> Work:
    rows, count = fresh.shape
    end = start + count
    positions = np.arange(start, end)
    blocks = np.array(tables)[:, positions // BLOCK_TOKENS]
    used = -(-end // BLOCK_TOKENS)
    return Work(
        step=start,
        model_key="",
        request_ids=tuple(str(row) for row in range(rows)),
        token_ids=fresh.reshape(-1),
        positions=np.tile(positions, rows),
        slots=(blocks * BLOCK_TOKENS + positions % BLOCK_TOKENS).reshape(-1),
        row_starts=np.arange(rows + 1) * count,
        context_lens=np.full(rows, end),
        block_tables=tuple(table[:used] for table in tables),
        sampling=(Sampling(),) * rows,
        lineages=(0,) * rows,
    )


def run_static(theirs: Any, prompts: Prompts, output: int) -> int:
    """One full batch of equal lengths, greedy, no early end."""
    tokens = torch.tensor(prompts)
    with torch.inference_mode():
        made = theirs.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=output,
            min_new_tokens=output,
            do_sample=False,
        )
    return int(made.numel() - tokens.numel())


def run_continuous(theirs: Any, prompts: Prompts, output: int) -> int:
    """transformers' own continuous batching."""
    from transformers import GenerationConfig

    config = GenerationConfig(max_new_tokens=output, do_sample=False, eos_token_id=-1, pad_token_id=0)
    made = theirs.generate_batch(inputs=prompts, generation_config=config, progress_bar=False)
    return sum(len(result.generated_tokens) for result in made.values())


if __name__ == "__main__":
    main()
