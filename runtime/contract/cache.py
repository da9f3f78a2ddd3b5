"""Caches bindings by signature, so that tensors with equal facts are checked once.

    signature = contract (group, model, version, graph, digest of the spec), inputs or outputs
              + values of the dims that an earlier graph of the step has determined
              + for each tensor: name, shape, strides, dtype, device, address modulo the required alignment

The signature holds every field that a bind depends on: with shapes alone, float16 data would get the entry of float32.
The address of an aligned buffer does not change a bind, so only its remainder is part of the signature.

Each entry carries its own signature, which `get` compares with the wanted one. A wrong entry is refused and counted,
and the tensors are bound again.
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
    """The signature of a bind of `facts`. It depends on the order of the tensors: another order is only a miss."""
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
    """A binding and the signature that it belongs to."""

    signature: Signature
    binding: Binding


class ShapeCache:
    """At most `entries_max` bindings, by signature. All calls come from one thread."""

    def __init__(self, env: Env, entries_max: int) -> None:
        assert entries_max >= 1, "a shape cache holds at least one entry"
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
        """The binding of exactly this signature, or None."""
        entry = self._entries.get(signature)
        if self._env.faults.armed:
            entry = self._cross(entry, contract, step, request)
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
        """Stores a binding; a full cache drops its oldest entry. (LRU order would cost each hit two more hashes.)"""
        if len(self._entries) >= self._entries_max and signature not in self._entries:
            del self._entries[next(iter(self._entries))]
        self._entries[signature] = Entry(signature, binding)

    def _cross(self, entry: Entry | None, contract: Contract, step: int | None, request: str | None) -> Entry | None:
        """Crosses `contract.cache`: a fault gives another entry. It is not crossed while there is no other entry."""
        others = [other for other in self._entries.values() if other is not entry]
        if not others:
            return entry
        effect = self._env.faults.fire(CONTRACT_CACHE, graph=contract.io.graph, step=step, request=request)
        if effect is not None and effect.kind is Kind.LIE:
            return others[effect.pick(len(others), "entry")]
        return entry
