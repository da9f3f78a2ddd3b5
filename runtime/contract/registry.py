"""The registry of contracts, by (group, model, version) and graph. Each group has contracts of its own, so an
experiment can change a model's inputs in one group without an effect on others."""

from dataclasses import dataclass
from functools import cached_property

from faults.spec import did_you_mean
from runtime.contract.spec import IOSpec, TensorSpec


@dataclass(frozen=True, order=True)
class ContractKey:
    """The group, model and version that a contract belongs to."""

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
        """The contract's part of a cache key. The digest differs when another contract is registered in its place."""
        return (self.key.group, self.key.model, self.key.version, self.io.graph, self.io.digest)

    @cached_property
    def alignments(self) -> dict[str, int]:
        """Name of a tensor -> alignment of its address, in bytes."""
        return {spec.name: spec.alignment_bytes for spec in (*self.io.outputs, *self.io.inputs)}

    def specs(self, outputs: bool = False) -> tuple[TensorSpec, ...]:
        """The specs of the inputs, or of the outputs."""
        return self.io.outputs if outputs else self.io.inputs


class UnknownContract(LookupError):
    """A contract is not registered; the text names the unknown part and the nearest known name."""


class Registry:
    """All contracts of one runtime."""

    def __init__(self) -> None:
        self._contracts: dict[tuple[ContractKey, str], Contract] = {}

    def register(self, key: ContractKey, io: IOSpec) -> Contract:
        """Adds a graph's contract. Raises ValueError when it has one already: a contract is removed, never edited."""
        if (key, io.graph) in self._contracts:
            raise ValueError(f'graph "{io.graph}" of {key} has a contract; remove it, or register another version')
        contract = Contract(key, io)
        self._contracts[key, io.graph] = contract
        return contract

    def get(self, key: ContractKey, graph: str) -> Contract:
        """The contract of `graph`, never that of another version or group. Raises UnknownContract."""
        contract = self._contracts.get((key, graph))
        if contract is not None:
            return contract
        graphs = [known for owner, known in self._contracts if owner == key]
        if graphs:
            raise UnknownContract(f'no graph "{graph}" of {key}{did_you_mean(graph, graphs)}')
        keys = sorted({owner for owner, _ in self._contracts})
        raise UnknownContract(f"nothing is registered for {key}; known: {', '.join(map(str, keys)) or 'nothing'}")

    def remove(self, key: ContractKey) -> tuple[Contract, ...]:
        """Removes the contracts of every graph of `key`, and returns them."""
        gone = tuple(contract for (owner, _), contract in self._contracts.items() if owner == key)
        for contract in gone:
            del self._contracts[key, contract.io.graph]
        return gone
