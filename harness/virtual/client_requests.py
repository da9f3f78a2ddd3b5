"""Makes planned requests into requests of virtual clients, some of them ahead of their time.

    schedule of each load -> merged by time -> batches -> one call for the prompts of a batch -> (t_s, ClientRequest)

A request depends only on its row and the seed, so making it early changes nothing. A batch costs a third of what its
requests would cost one by one, between steps of the engine. A batch is limited in requests and in prompt tokens.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.load.malformed import malformed_body
from harness.plan.canary import CanaryConfig
from runtime.device.hash_model import prompt_tokens
from runtime.server.request import GenerationParams
from runtime.server.schema import CompletionRequest, read
from scenarios.arrivals import Arrival, PlannedRequest, arrivals, seed_of
from scenarios.load import Load

BATCH_REQUESTS = 32
BATCH_TOKENS = 50_000
"""A batch ends with the request that reaches one of these limits."""


@dataclass(slots=True)
class ClientRequest:
    """A request as its client sends it. It is not frozen, because that would triple the cost of making one."""

    id: str
    load: str
    kind: str
    """load | probe | canary | malformed"""
    group: str
    plan_row: int
    prompt: tuple[int, ...]
    prompt_sha: str
    output_tokens: int
    stream: bool
    timeout_s: float
    cancel_at: str | None
    """The planned cancel, see harness.load.cancel."""
    priority: int = 0
    logprobs: int | None = None


_Due = tuple[float, Load, Arrival]


def open_loop_requests(loads: Sequence[Load], seed: int) -> Iterator[tuple[float, ClientRequest]]:
    """The requests of all open loops with their times in the schedule (s), in order of time."""
    due = heapq.merge(*[_arrivals(load, seed) for load in loads if load.arrivals != "closed"], key=lambda one: one[0])
    while batch := _next_batch(due):
        yield from _with_prompts(batch)


def load_request(load: Load, row: PlannedRequest, prompt: tuple[int, ...]) -> ClientRequest:
    """The request of one row of a load, with its prompt."""
    parts = "/".join([f"{seed:016x}.{count}" for seed, count in row.parts])
    return ClientRequest(
        id=f"{load.id}-{row.n}",
        load=load.id,
        kind="malformed" if row.malformed else "probe" if load.probe else "load",
        group=load.group,
        plan_row=row.n,
        prompt=prompt,
        prompt_sha="malformed" if row.malformed else parts,
        output_tokens=row.output_tokens,
        stream=row.stream,
        timeout_s=load.timeout,
        cancel_at=row.cancel_at,
        priority=load.priority,
    )


def canary_request(canary: CanaryConfig, seed: int, number: int) -> ClientRequest:
    """The canary with this number: fixed prompts in turn, greedy, with log probabilities."""
    index = number % canary.prompts
    part = (seed_of(f"{seed}/canary/{index}"), canary.prompt_tokens)
    return ClientRequest(
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
        cancel_at=None,
        logprobs=canary.logprobs,
    )


def params_of(request: ClientRequest) -> GenerationParams:
    """The parameters that an endpoint reads from the request. It is greedy, so its seed has no effect.

    Raises InvalidRequest for a malformed request.
    """
    prompt, most, stream = request.prompt, request.output_tokens, request.stream
    if request.kind == "malformed":
        body = read(CompletionRequest, malformed_body(request.plan_row, "", "completions")[1])
        prompt, most, stream = tuple(str(body.prompt).encode()), body.max_tokens or 1, body.stream
    return GenerationParams(
        prompt=prompt,
        param="prompt",
        max_tokens=most,
        temperature=0.0,
        top_p=1.0,
        seed=0,
        logprobs=request.logprobs,
        stops=(),
        stop_tokens=frozenset(),
        stream=stream,
        include_usage=stream,
        token_ids=False,
        priority=request.priority,
    )


def _arrivals(load: Load, seed: int) -> Iterator[_Due]:
    for row in arrivals(load, seed):
        yield row.t_s, load, row


def _next_batch(due: Iterator[_Due]) -> list[_Due]:
    batch: list[_Due] = []
    tokens = 0
    for one in due:
        batch.append(one)
        tokens += one[2].prompt_tokens
        if len(batch) == BATCH_REQUESTS or tokens >= BATCH_TOKENS:
            break
    return batch


def _with_prompts(batch: Sequence[_Due]) -> Iterator[tuple[float, ClientRequest]]:
    tokens = prompt_tokens([part for _, _, row in batch for part in row.parts])
    start = 0
    for t_s, load, row in batch:
        end = start + row.prompt_tokens
        yield t_s, load_request(load, row, tuple(tokens[start:end]))
        start = end
    assert start == len(tokens), "the parts of a prompt do not add up"
