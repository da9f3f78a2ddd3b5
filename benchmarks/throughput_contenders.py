"""The contenders of `throughput_cpu`: each serves a list of requests to its last token and returns how many it made.

Torch work runs on a thread that ends with the run, the device's worker or one made for it (runtime/device/threads.py),
so that no contender computes beside the OpenMP pool of another.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.throughput_work import VOCABULARY, Asked
from faults import DisabledFaults
from runtime.build import WallClock
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Mailbox, Output, Submit
from runtime.core.work import Claims, Sampling, Work
from runtime.device.cpu import CpuDevice
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
ROWS = 32
"""Requests that run at once, at most; the static batch has as many rows."""
TOKEN_BUDGET = 512
Contender = Callable[[Sequence[Asked]], int]
_NO_CLAIMS = Claims((), np.zeros((0, 0), np.int64), np.zeros((0, 0), np.uint64), (), ())


class Contenders:
    """One random Llama of 4 layers with hidden size 128, as `transformers` runs it and as we do."""

    def __init__(self, threads: int, tokens_max: int) -> None:
        """`tokens_max`: the most that one request takes, prompt and output."""
        self._threads = threads
        self._theirs = _small_llama()
        self._blocks = (ROWS + 1) * (-(-tokens_max // BLOCK_TOKENS) + 1)
        with tempfile.TemporaryDirectory() as folder:
            self._theirs.save_pretrained(folder)
            config = read_config(Path(folder))
            weights = load_weights(Path(folder), config)
        self._model = ModelRunner(Decoder(config, weights), PagedKv(config, self._blocks, BLOCK_TOKENS))

    def engine(self, work: Sequence[Asked]) -> int:
        """All that the server has but HTTP. A request is offered when its time has come."""
        mailbox = Mailbox(len(work))
        env = Env(WallClock(), 0, DisabledFaults(), Ledger(mailbox.wake))
        pool = PagedPool(env, self._blocks, BLOCK_TOKENS)
        device = CpuDevice({"": self._model}, pool.plane, env, threads=self._threads)
        sink = _Counter()
        engine = Engine(env, device, pool, sink, mailbox, Limits(TOKEN_BUDGET, ROWS, len(work)), Bounds())
        began_ns, offered = env.clock.now_ns(), 0
        while True:
            now_ns = env.clock.now_ns()
            while offered < len(work) and began_ns + work[offered].at_s * 1e9 <= now_ns:
                asked = work[offered]
                deadline_ns = now_ns + 600 * 10**9
                mailbox.offer(Submit(str(offered), asked.prompt, asked.output, Sampling(), now_ns, deadline_ns))
                offered += 1
            engine.step()
            if sink.ended == len(work):
                break
            waits = [engine.wait_s()]
            if offered < len(work):
                waits.append(max(0.0, work[offered].at_s - (env.clock.now_ns() - began_ns) / 1e9))
            mailbox.wait(min((wait for wait in waits if wait is not None), default=None))
        device.close()
        return sink.tokens

    def device(self, work: Sequence[Asked]) -> int:
        """Launches handed to CpuDevice by a script, each as soon as the one before is done: model and device alone,
        without scheduler, tags and engine. Only for requests of one shape that are all there."""
        rows, length, output = len(work), len(work[0].prompt), work[0].output
        assert all((len(asked.prompt), asked.output) == (length, output) for asked in work), "the shapes differ"
        done = threading.Event()
        env = Env(WallClock(), 0, DisabledFaults(), Ledger(done.set))
        device = CpuDevice({"": self._model}, _NoTags(), env, threads=self._threads)
        tables = np.arange(-(-(length + output) // BLOCK_TOKENS) * rows).reshape(-1, rows).T
        fresh, made = np.array([asked.prompt for asked in work]), 0
        for start in (0, *range(length, length + output - 1)):
            done.clear()
            ticket = device.launch(_work(fresh, start, tables), _NO_CLAIMS, ())
            done.wait()
            env.ledger.settle()
            if ticket.error is not None or ticket.result is None:
                raise RuntimeError("a launch failed") from ticket.error
            drawn = [sampled.token for sampled in ticket.result.sampled if sampled is not None]
            made += len(drawn)
            fresh = np.array(drawn)[:, None]
        device.close()
        return made

    def static(self, work: Sequence[Asked]) -> int:
        """`transformers.generate`, greedy, on batches in order of arrival; each waits until all of its requests are
        there. Prompts are padded to the longest of the batch and all rows run until its longest output; of these only
        what was asked for counts."""
        began_s = time.monotonic()
        for batch in batches_of(work):
            time.sleep(max(0.0, began_s + batch[-1].at_s - time.monotonic()))
            self._apart(partial(self._generate, batch))
        return sum(asked.output for asked in work)

    def _generate(self, batch: Sequence[Asked]) -> None:
        longest, output = max(len(asked.prompt) for asked in batch), max(asked.output for asked in batch)
        tokens = torch.zeros((len(batch), longest), dtype=torch.int64)
        mask = torch.zeros_like(tokens)
        for row, asked in enumerate(batch):
            tokens[row, longest - len(asked.prompt) :] = torch.tensor(asked.prompt)
            mask[row, longest - len(asked.prompt) :] = 1
        with torch.inference_mode():
            made = self._theirs.generate(
                tokens, attention_mask=mask, max_new_tokens=output, min_new_tokens=output, do_sample=False
            )
        assert made.shape == (len(batch), longest + output), "a row ended early"

    def _apart(self, call: Callable[[], Any]) -> Any:
        """What `call` returns or raises, on a thread of its own with the threads that were asked for."""
        outcome: list[Any] = []

        def run() -> None:
            torch.set_num_threads(self._threads)
            try:
                outcome.append(call())
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]


def batches_of(work: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    """Static batches: ROWS requests at a time, in order of arrival."""
    return (work[first : first + ROWS] for first in range(0, len(work), ROWS))


def static_tokens(work: Sequence[Asked]) -> int:
    """New tokens that static batches compute for `work`, with those of rows that wait for the longest."""
    return sum(len(batch) * max(asked.output for asked in batch) for batch in batches_of(work))


def _small_llama() -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
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


class _Counter:
    """A sink that counts."""

    def __init__(self) -> None:
        self.tokens = 0
        self.ended = 0

    def step(self, outputs: list[Output]) -> None:
        for output in outputs:
            self.tokens += len(output.tokens)
            self.ended += output.ended is not None


class _NoTags:
    def verify(self, work: Work, reads: object) -> tuple[()]:
        return ()

    def stamp(self, work: Work) -> None:
        return None


def _work(fresh: np.ndarray, start: int, tables: np.ndarray) -> Work:
    rows, count = fresh.shape
    end = start + count
    positions = np.arange(start, end)
    blocks = tables[:, positions // BLOCK_TOKENS]
    return Work(
        step=start,
        model_key="",
        request_ids=tuple(str(row) for row in range(rows)),
        token_ids=fresh.reshape(-1),
        positions=np.tile(positions, rows),
        slots=(blocks * BLOCK_TOKENS + positions % BLOCK_TOKENS).reshape(-1),
        row_starts=np.arange(rows + 1) * count,
        context_lens=np.full(rows, end),
        block_tables=tables[:, : -(-end // BLOCK_TOKENS)],
        sampling=(Sampling(),) * rows,
        prefix_hashes=np.zeros(rows, np.uint64),
    )
