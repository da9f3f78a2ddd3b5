"""Computes whole replies: prompts one by one, then the decode steps of some together."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from harness.oracle.choice import GREEDY, Sampling, choose
from harness.oracle.model import Context, Model, log_probabilities

_TOGETHER = 16


@dataclass(frozen=True)
class Ask:
    """A prompt of token ids and the options of its reply."""

    prompt: Sequence[int]
    tokens_max: int
    sampling: Sampling = GREEDY


@dataclass
class Reply:
    """The tokens of a reply. The other lists have an entry for each: its log probability at temperature 1, and the
    margin of its choice."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)


def replies(model: Model, asks: Sequence[Ask], stops: Collection[int] = ()) -> list[Reply]:
    """The reply to each of `asks`, in their order. A reply ends with the first token that is one of `stops`."""
    found: list[Reply] = []
    for first in range(0, len(asks), _TOGETHER):
        found += _together(model, asks[first : first + _TOGETHER], stops)
    return found


def _together(model: Model, asks: Sequence[Ask], stops: Collection[int]) -> list[Reply]:
    made = [Reply() for _ in asks]
    contexts = [model.context(len(ask.prompt) + ask.tokens_max) for ask in asks]
    for ask, context, reply in zip(asks, contexts, made, strict=True):
        assert ask.prompt and ask.tokens_max > 0, "a prompt and a reply have tokens"
        _extend(model, [(ask, context, reply)], [ask.prompt])
    while going := [
        (ask, context, reply)
        for ask, context, reply in zip(asks, contexts, made, strict=True)
        if len(reply.tokens) < ask.tokens_max and reply.tokens[-1] not in stops
    ]:
        _extend(model, going, [reply.tokens[-1:] for _, _, reply in going])
    return made


def _extend(model: Model, rows: Sequence[tuple[Ask, Context, Reply]], tokens: Sequence[Sequence[int]]) -> None:
    """Append `tokens` to the context of each row, and one token to its reply."""
    logits = model.logits([(context, new) for (_, context, _), new in zip(rows, tokens, strict=True)])
    for (ask, context, reply), line in zip(rows, logits, strict=True):
        token, margin = choose(line, ask.sampling, context.length)
        reply.tokens.append(token)
        reply.logprobs.append(float(log_probabilities(line)[token]))
        reply.margins.append(margin)
