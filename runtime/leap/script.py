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
from runtime.device.keyed import KeyedModel
from runtime.memory.kv.tag_line import Foreseen, Ruler, Words
from runtime.memory.kv.tags import TagPlane
from runtime.scheduling.request import Phase, Request

_FEW = 64
"""Scripts of requests that have ended are kept until there are so many more than twice those of others."""


class Script:
    """Of one request, up to the last token that it may get. The last of all is drawn and never fed."""

    __slots__ = ("_checked", "foreseen", "parts", "states", "sums", "tags", "tokens")

    def __init__(self, prompt: bytes, limit: int, model: KeyedModel, ruler: Ruler) -> None:
        fed: Words = np.empty(limit - 1, np.uint64)
        fed[: len(prompt)] = np.frombuffer(prompt, np.uint8)
        self.states, answer = model.foresee(fed[: len(prompt)], limit - len(prompt))
        fed[len(prompt) :] = answer[:-1]
        self.tokens = [*prompt, *answer.tolist()]
        self.foreseen = Foreseen(self.tokens, fed, ruler)
        self.tags, self.parts, self.sums = self.foreseen.tags, self.foreseen.parts, self.foreseen.sums
        self._checked = 0

    def holds(self, request: Request) -> bool:
        """Whether it has gone by the script so far, and will be claimed by it."""
        tokens, checked = request.tokens, self._checked
        if len(tokens) != checked:
            if tokens[checked:] != self.tokens[checked : len(tokens)]:
                return False
            self._checked = len(tokens)
        request.line.foresee(self.foreseen)
        return True

    def told(self, tokens: int) -> None:
        """So many of the request's tokens are taken from here."""
        self._checked = tokens


class Scripts:
    """Those of all who are inside."""

    def __init__(self, model: KeyedModel, plane: TagPlane) -> None:
        self._model = model
        self._plane = plane
        self._size = plane.block_tokens
        self._kv, self._tags = model.slots, plane.slots
        self._ruler = Ruler(self._size)
        self._of: dict[str, tuple[Request, Script | None]] = {}
        self._most = _FEW

    def of(self, request: Request) -> Script | None:
        """Its script, or None where it can't have one."""
        known = self._of.get(request.id)
        if known is None or known[0] is not request:
            known = self._of[request.id] = request, self._written(request)
            if len(self._of) > self._most:
                self._of = {name: kept for name, kept in self._of.items() if kept[0].phase is not Phase.ENDED}
                self._most = 2 * len(self._of) + _FEW
        script = known[1]
        return script if script is not None and script.holds(request) else None

    def sampled(self, request: Request, script: Script, at: int) -> Sampled:
        """The token that follows the one at this place."""
        if request.submit.sampling.logprobs is not None:
            return self._model.sampled(int(script.states[at]))
        plain: Sampled = self._model.plain[script.tokens[at + 1]]
        return plain

    def intact(self, rows: Sequence[Request], scripts: Sequence[Script]) -> bool:
        """Whether every block that these will read holds what they claim, and the last slot of each what the model is
        to go on from."""
        size = self._size
        held, sums, slots, states, deep = [], [], [], [], []
        for request, script in zip(rows, scripts, strict=True):
            n = request.computed
            if not n:
                continue
            blocks, part = n // size, n % size
            sums.append(script.sums[:blocks])
            if part:
                sums.append(script.parts[n - 1 : n])
                blocks += 1
            table = request.blocks
            view = request.line.held(table, request.generations)
            held.append(view if len(table) == blocks else view[:, :blocks])
            slots.append(table[blocks - 1] * size + (n - 1) % size)
            states.append(script.states[n - 1 : n])
            if request.doubted:
                deep.append((held[-1][0], sums[-1 - bool(part) :]))
        if not held:
            return True
        joined = np.concatenate(held, axis=1)
        if not self._plane.holds(joined[0], joined[1], np.concatenate(sums)):
            return False
        if np.count_nonzero(self._model.slots[slots] != np.concatenate(states)):
            return False
        return all(self._plane.holds_deep(table, np.concatenate(parts)) for table, parts in deep)

    def write(self, request: Request, script: Script, first: int, end: int) -> list[int]:
        """KV and tags of its tokens from place `first` up to `end`; returns the blocks whose sums are to be made."""
        size, kv, plane, blocks = self._size, self._kv, self._tags, request.blocks
        touched = []
        if end - first > 4 * size:
            first = self._write_rows(request, script, first, end)
        while first < end:
            at = first // size
            stop, shift = min(end, at * size + size), (blocks[at] - at) * size
            kv[first + shift : stop + shift] = script.states[first:stop]
            plane[first + shift : stop + shift] = script.tags[first:stop]
            touched.append(blocks[at])
            first = stop
        return touched

    def _write_rows(self, request: Request, script: Script, first: int, end: int) -> int:
        """All blocks but the last few tokens, as rows; their sums are known. Returns where it has come to."""
        size = self._size
        begin, stop = -(-first // size), end // size
        if first < begin * size:
            self._plane.resum(self.write(request, script, first, begin * size))
        table = request.line.held(request.blocks, request.generations)[0, begin:stop]
        whole = slice(begin * size, stop * size)
        self._model.rows[table] = script.states[whole].reshape(-1, size)
        self._plane.rows[table] = script.tags[whole].reshape(-1, size)
        self._plane.wrote(table, script.sums[begin:stop])
        return stop * size

    def _written(self, request: Request) -> Script | None:
        submit = request.submit
        if submit.stop_tokens or submit.model_key:
            return None
        try:
            prompt = bytes(submit.prompt)
        except ValueError:
            return None
        # What only the model says is no prompt: `foresee` would take it for a letter of somebody else.
        return Script(prompt, request.limit, self._model, self._ruler) if prompt.isascii() else None
