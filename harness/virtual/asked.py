"""Makes rows of the plan into requests of virtual clients, some ahead of their time.

    schedule of each load -> merged by time -> batches -> one pass for all their prompts -> (t_s, Asked) one by one

Rows depend on the seed alone, so nothing is decided early; what is done for many at once costs a third of what it
costs for each between two turns of an engine. A batch is bounded in rows and in tokens.
"""

import heapq
from collections.abc import Iterator, Sequence

from harness.load.cancel import parse_cancel
from harness.load.malformed import malformed_body
from harness.plan.canary import CanaryConfig
from harness.virtual.client import Asked
from runtime.device.hash_model import prompt_tokens
from runtime.server.request import GenerationParams
from runtime.server.schema import CompletionRequest, read
from scenarios.arrivals import Arrival, PlannedRequest, arrivals, seed_of
from scenarios.load import Load

AHEAD_ROWS = 32
AHEAD_TOKENS = 50_000
"""A batch ends with the row that reaches it."""

_Due = tuple[float, Load, Arrival]


def open_asked(loads: Sequence[Load], seed: int) -> Iterator[tuple[float, Asked]]:
    """The requests of all open loads with their times (seconds of the schedule), in order of time."""
    streams = [_stream(load, seed) for load in loads if load.arrivals != "closed"]
    due = heapq.merge(*streams, key=lambda one: one[0])
    while batch := _batch(due):
        yield from _prompted(batch)


def load_asked(load: Load, ask: PlannedRequest, prompt: tuple[int, ...]) -> Asked:
    """The request of a row of a load, with its prompt."""
    parts = "/".join([f"{seed:016x}.{count}" for seed, count in ask.parts])
    return Asked(
        id=f"{load.id}-{ask.n}",
        load=load.id,
        kind="malformed" if ask.malformed else "probe" if load.probe else "load",
        group=load.group,
        plan_row=ask.n,
        prompt=prompt,
        prompt_sha="malformed" if ask.malformed else parts,
        output_tokens=ask.output_tokens,
        stream=ask.stream,
        timeout_s=load.timeout,
        cancel=parse_cancel(ask.cancel_at),
        cancel_at=ask.cancel_at,
        priority=load.priority,
    )


def canary_asked(canary: CanaryConfig, seed: int, number: int) -> Asked:
    """The nth canary: fixed prompts in turn, greedy, with log probabilities."""
    index = number % canary.prompts
    part = (seed_of(f"{seed}/canary/{index}"), canary.prompt_tokens)
    return Asked(
        id=f"canary-{number}",
        load="canary",
        kind="canary",
        group=canary.group,
        plan_row=number,
        prompt=tuple(prompt_tokens([part])),
        prompt_sha=f"{part[0]:016x}.{part[1]}",
        output_tokens=canary.output_tokens,
        stream=True,
        timeout_s=canary.timeout_s,
        cancel=None,
        cancel_at=None,
        logprobs=canary.logprobs,
    )


def params_of(asked: Asked) -> GenerationParams:
    """The request as an endpoint reads it; greedy, so its seed says nothing. Raises InvalidRequest."""
    prompt, most, stream = asked.prompt, asked.output_tokens, asked.stream
    if asked.kind == "malformed":
        sent = read(CompletionRequest, malformed_body(asked.plan_row, "", "completions")[1])
        prompt, most, stream = tuple(str(sent.prompt).encode()), sent.max_tokens or 1, sent.stream
    return GenerationParams(
        prompt=prompt,
        param="prompt",
        max_tokens=most,
        temperature=0.0,
        top_p=1.0,
        seed=0,
        logprobs=asked.logprobs,
        stops=(),
        stop_tokens=frozenset(),
        stream=stream,
        include_usage=stream,
        token_ids=False,
        priority=asked.priority,
    )


def _stream(load: Load, seed: int) -> Iterator[_Due]:
    for row in arrivals(load, seed):
        yield row.t_s, load, row


def _batch(due: Iterator[_Due]) -> list[_Due]:
    batch: list[_Due] = []
    tokens = 0
    for one in due:
        batch.append(one)
        tokens += one[2].prompt_tokens
        if len(batch) == AHEAD_ROWS or tokens >= AHEAD_TOKENS:
            break
    return batch


def _prompted(batch: Sequence[_Due]) -> list[tuple[float, Asked]]:
    tokens = prompt_tokens([part for _, _, row in batch for part in row.parts])
    made, at = [], 0
    for t_s, load, row in batch:
        end = at + row.prompt_tokens
        made.append((t_s, load_asked(load, row, tuple(tokens[at:end]))))
        at = end
    assert at == len(tokens), "the parts of a prompt do not add up"
    return made
