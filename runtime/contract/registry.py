"""Register: which contract holds for a graph of a (group, model, version). Each group has its own, so an experiment
can change a model's inputs and the groups beside it never notice."""

from dataclasses import dataclass
from functools import cached_property

from faults.spec import did_you_mean
from runtime.contract.spec import IOSpec, TensorSpec


@dataclass(frozen=True, order=True)
class ContractKey:
    """Whose contract it is."""

    group: str = ""
    model: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f'(group "{self.group}", model "{self.model}", version "{self.version}")'


@dataclass(frozen=True)
class Contract:
    """One graph's inputs and outputs for one (group, model, version)."""

    key: ContractKey
    io: IOSpec

    @cached_property
    def identity(self) -> tuple[str, ...]:
        """Its part of a cache key. The digest tells it from another contract that is later registered in its place."""
        return (self.key.group, self.key.model, self.key.version, self.io.graph, self.io.digest)

    @cached_property
    def alignments(self) -> dict[str, int]:
        """Bytes that a tensor's address is held to, by name."""
        return {spec.name: spec.alignment_bytes for spec in (*self.io.outputs, *self.io.inputs)}

    def specs(self, outputs: bool = False) -> tuple[TensorSpec, ...]:
        """Those of the inputs, or of the outputs."""
        return self.io.outputs if outputs else self.io.inputs


class UnknownContract(LookupError):
    """No such contract; the text says which part is unknown and names the nearest."""


class Registry:
    """All contracts of one Env."""

    def __init__(self) -> None:
        self._contracts: dict[tuple[ContractKey, str], Contract] = {}

    def register(self, key: ContractKey, io: IOSpec) -> Contract:
        """Add a graph's contract. Raises ValueError when there is one: remove it first, a contract is never edited."""
        if (key, io.graph) in self._contracts:
            raise ValueError(f'graph "{io.graph}" of {key} has a contract; remove it, or register another version')
        contract = Contract(key, io)
        self._contracts[key, io.graph] = contract
        return contract

    def get(self, key: ContractKey, graph: str) -> Contract:
        """Raises UnknownContract. Never falls back to another version or group."""
        contract = self._contracts.get((key, graph))
        if contract is not None:
            return contract
        graphs = [known for owner, known in self._contracts if owner == key]
        if graphs:
            raise UnknownContract(f'no graph "{graph}" of {key}{did_you_mean(graph, graphs)}')
        keys = sorted({owner for owner, _ in self._contracts})
        raise UnknownContract(f"nothing is registered for {key}; known: {', '.join(map(str, keys)) or 'nothing'}")

    def remove(self, key: ContractKey) -> tuple[Contract, ...]:
        """Forget every graph of `key` (a version is gone, a group is torn down); gives what there was."""
        gone = tuple(contract for (owner, _), contract in self._contracts.items() if owner == key)
        for contract in gone:
            del self._contracts[key, contract.io.graph]
        return gone
