"""Cache: a bind that has been done is not done again, for as long as nothing that matters is different.

    signature = contract (group, model, version, graph, digest of the spec), inputs or outputs
              + values of the dims that an earlier graph of the step has settled
              + for each tensor: name, shape, strides, dtype, device, address modulo the alignment asked for

A field left out here is a wrong answer there: with a key of shapes alone, float16 data is served the float32 entry.
One thing is kept out and can't change what a bind says: where an aligned buffer lies.

An entry carries its own signature and is compared with the one that asks. Whatever hands out a wrong entry, it is
refused and counted, and the bind is done afresh.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from faults.points import Kind
from runtime.contract.points import CONTRACT_CACHE
from runtime.contract.registry import Contract
from runtime.contract.spec import TensorFacts
from runtime.contract.validate import Binding
from runtime.core.env import Env

Signature = tuple[object, ...]


def signature_of(
    contract: Contract, facts: Sequence[TensorFacts], given: Sequence[int] = (), outputs: bool = False
) -> Signature:
    """All that a bind of `facts` depends on. Order of the tensors included: it costs a hit and never an answer."""
    alignments = contract.alignments
    return (
        contract.identity,
        outputs,
        *given,
        *[
            (name, shape, strides, dtype, device, address % alignments.get(name, 1))
            for name, shape, strides, dtype, device, address in facts
        ],
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """A bind that was done, and for what."""

    signature: Signature
    binding: Binding


class ShapeCache:
    """At most `entries_max` different binds. One thread."""

    def __init__(self, env: Env, entries_max: int) -> None:
        assert entries_max >= 1, "a cache without room would evict what it is asked to keep"
        self.hits = 0
        self.misses = 0
        self.refused = 0
        self._env = env
        self._entries_max = entries_max
        self._entries: dict[Signature, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(
        self, contract: Contract, signature: Signature, *, step: int | None = None, request: str | None = None
    ) -> Binding | None:
        """The binding that was put for exactly this signature."""
        entry = self._entries.get(signature)
        if self._env.faults.armed:
            entry = self._crossed(entry, contract, step, request)
        if entry is None:
            self.misses += 1
            return None
        if entry.signature != signature:
            self.refused += 1
            self._env.counters.hit("contract.cache_refused")
            return None
        self.hits += 1
        return entry.binding

    def put(self, signature: Signature, binding: Binding) -> None:
        """Keep it; the oldest makes room. (To keep the last used instead would cost each hit two more hashes.)"""
        if len(self._entries) >= self._entries_max and signature not in self._entries:
            del self._entries[next(iter(self._entries))]
        self._entries[signature] = Entry(signature, binding)

    def _crossed(self, entry: Entry | None, contract: Contract, step: int | None, request: str | None) -> Entry | None:
        """What an armed fault makes of the answer. Not crossed while there is no other entry to lie with."""
        others = [other for other in self._entries.values() if other is not entry]
        if not others:
            return entry
        effect = self._env.faults.fire(CONTRACT_CACHE, graph=contract.io.graph, step=step, request=request)
        if effect is not None and effect.kind is Kind.LIE:
            return others[effect.pick(len(others), "entry")]
        return entry
