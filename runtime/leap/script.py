"""What a request will say and what its KV will hold, worked out once: all of it follows from its prompt.

    script.tokens   prompt ... | answer ...            the answer to its very end
    script.states   what the model keeps in the slot of each
    script.foreseen lineage, tags and sums of each     what the tag plane holds, and what the request will claim

A launch in virtual time then only compares and copies. What the KV really holds is compared before each launch
(`intact`): where it is not as the script says, the launch is laid out and computed as ever, damage and all.
"""

from collections.abc import Sequence

import numpy as np

from runtime.core.work import Sampled
from runtime.device.keyed import SAID, KeyedModel
from runtime.memory.kv.tag_line import Foreseen
from runtime.memory.kv.tags import TagPlane
from runtime.scheduling.request import Phase, Request

_FEW = 64
"""Scripts of requests that have ended are kept until there are so many more than of those that are inside."""


class Script:
    """Of one request, up to the last token that it may get. The last of all is drawn and never fed."""

    __slots__ = ("_checked", "foreseen", "states", "tokens")

    def __init__(self, prompt: Sequence[int], limit: int, model: KeyedModel, block_tokens: int) -> None:
        fed = np.frombuffer(bytes(prompt), np.uint8).astype(np.uint64)
        self.states, answer = model.foresee(fed, limit - len(prompt))
        self.tokens = [*prompt, *answer]
        self.foreseen = Foreseen(self.tokens[:-1], block_tokens)
        self._checked = 0

    def holds(self, request: Request) -> bool:
        """Whether it has gone by the script so far, and will be claimed by it."""
        tokens, checked = request.tokens, self._checked
        if len(tokens) > checked:
            if tokens[checked:] != self.tokens[checked : len(tokens)]:
                return False
            self._checked = len(tokens)
        request.line.foresee(self.foreseen)
        return True


class Scripts:
    """Those of all who are inside."""

    def __init__(self, model: KeyedModel, plane: TagPlane) -> None:
        self._model = model
        self._plane = plane
        self._size = plane.block_tokens
        self._of: dict[str, tuple[Request, Script | None]] = {}

    def of(self, request: Request) -> Script | None:
        """Its script, or None where it can't have one."""
        known = self._of.get(request.id)
        if known is None or known[0] is not request:
            known = self._of[request.id] = request, self._written(request)
        script = known[1]
        return script if script is not None and script.holds(request) else None

    def prune(self, inside: int) -> None:
        """Forget those of requests that have ended."""
        if len(self._of) > 2 * inside + _FEW:
            self._of = {name: kept for name, kept in self._of.items() if kept[0].phase is not Phase.ENDED}

    def sampled(self, request: Request, script: Script, at: int) -> Sampled:
        """The token that follows the one at this place."""
        if request.submit.sampling.logprobs is not None:
            return self._model.sampled(int(script.states[at]))
        return self._model.plain[script.tokens[at + 1]]

    def intact(self, rows: Sequence[Request], scripts: Sequence[Script]) -> bool:
        """Whether every block that these will read holds what they claim, and the last slot of each what the model is
        to go on from."""
        size = self._size
        tables, generations, sums, slots, states, deep = [], [], [], [], [], []
        for request, script in zip(rows, scripts, strict=True):
            n = request.computed
            if not n:
                continue
            blocks, part = divmod(n, size)
            sums.append(script.foreseen.sums[:blocks])
            if part:
                sums.append(script.foreseen.parts[n - 1 : n])
                blocks += 1
            held = request.line.held(request.blocks, request.generations)
            table = held[0, :blocks]
            tables.append(table)
            generations.append(held[1, :blocks])
            slots.append(request.blocks[blocks - 1] * size + (n - 1) % size)
            states.append(script.states[n - 1 : n])
            if request.doubted:
                deep.append((table, sums[-1 - bool(part) :]))
        if not tables:
            return True
        plane = self._plane
        joined = np.concatenate(sums)
        if not plane.holds(np.concatenate(tables), np.concatenate(generations), joined):
            return False
        if not np.array_equal(self._model.slots[slots], np.concatenate(states)):
            return False
        return all(plane.holds_deep(table, np.concatenate(parts)) for table, parts in deep)

    def write(self, request: Request, blocks: Sequence[int], script: Script, first: int, end: int) -> list[int]:
        """KV and tags of its tokens from place `first` up to `end`; returns the blocks, whose sums are to be made."""
        size, states, tags = self._size, script.states, script.foreseen.tags
        kv, plane = self._model.slots, self._plane.slots
        touched = list(blocks[first // size : (end - 1) // size + 1])
        if len(touched) > 2:
            slots = (np.asarray(touched)[:, None] * size + np.arange(size)).ravel()
            slots = slots[first % size : first % size + end - first]
            kv[slots] = states[first:end]
            plane[slots] = tags[first:end]
            return touched
        for block in touched:
            edge = min(end, first - first % size + size)
            slot = block * size + first % size
            kv[slot : slot + edge - first] = states[first:edge]
            plane[slot : slot + edge - first] = tags[first:edge]
            first = edge
        return touched

    def _written(self, request: Request) -> Script | None:
        submit = request.submit
        if submit.stop_tokens or submit.model_key or max(submit.prompt) >= SAID:
            return None
        return Script(submit.prompt, request.limit, self._model, self._size)
