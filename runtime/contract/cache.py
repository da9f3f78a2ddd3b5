"""Remembers which tensors keep their contract, by signature, so that tensors with equal facts are checked once.

    signature = digest of the contract (group, model, version, graph, specs), inputs or outputs
              + values of the dims that an earlier graph of the step has determined
              + for each tensor: shape, strides, dtype, device, address modulo the required alignment

The signature holds every field that a check depends on: with shapes alone, float16 data would get the entry of float32.
The address of an aligned buffer does not change a check, so only its remainder is part of the signature.

Each entry carries its own signature, which is compared with the wanted one. A wrong entry is refused and counted, and
the tensors are checked again.
"""

from collections.abc import Sequence

from faults.points import Kind
from runtime.contract.points import CONTRACT_CACHE
from runtime.contract.spec import Contract, TensorFacts
from runtime.core.env import Env

Signature = tuple[object, ...]


def signature_of(
    contract: Contract, facts: Sequence[TensorFacts], given: Sequence[int] = (), outputs: bool = False
) -> Signature:
    """The signature of a check of `facts`, which are in the order of the contract."""
    return (
        contract.digest,
        outputs,
        *given,
        *[
            (shape, strides, dtype, device, address % spec.alignment_bytes)
            for spec, (shape, strides, dtype, device, address) in zip(contract.specs(outputs), facts, strict=True)
        ],
    )


class ShapeCache:
    """At most `entries_max` signatures of tensors that keep their contract. All calls come from one thread."""

    def __init__(self, env: Env, entries_max: int) -> None:
        assert entries_max >= 1, "a shape cache holds at least one entry"
        self.hits = 0
        self.misses = 0
        self.refused = 0
        self._env = env
        self._entries_max = entries_max
        self._entries: dict[Signature, Signature] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def holds(self, signature: Signature, graph: str, step: int | None, request: str | None) -> bool:
        """True when there is an entry of exactly this signature. The other arguments are shown to faults."""
        entry = self._entries.get(signature)
        if self._env.faults.armed:
            entry = self._cross(entry, graph, step, request)
        if entry is None:
            self.misses += 1
            return False
        if entry != signature:
            self.refused += 1
            self._env.counters.hit("contract.cache_refused")
            return False
        self.hits += 1
        return True

    def add(self, signature: Signature) -> None:
        """Adds an entry; a full cache drops its oldest one. (LRU order would cost each hit two more hashes.)"""
        if len(self._entries) >= self._entries_max and signature not in self._entries:
            del self._entries[next(iter(self._entries))]
        self._entries[signature] = signature

    def _cross(self, entry: Signature | None, graph: str, step: int | None, request: str | None) -> Signature | None:
        """Crosses `contract.cache`: a fault gives another entry. It is not crossed while there is no other entry."""
        others = [other for other in self._entries if other != entry]
        if not others:
            return entry
        effect = self._env.faults.fire(CONTRACT_CACHE, graph=graph, step=step, request=request)
        if effect is not None and effect.kind is Kind.LIE:
            return others[effect.pick(len(others), "entry")]
        return entry
