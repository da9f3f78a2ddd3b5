"""Checks the tensors of one graph against its contract before any kernel of the graph reads them.

    tensors --contract.bind may damage one--> facts --> signature --> cache --miss--> rules
                                                                        |hit           |violation
                                                                        v              v
                                                            unchanged tensors    repaired, or ContractViolation

`Binder` knows no tensor type. A device gives it `Tensors`, which reads the facts of a tensor and makes a tensor with
given facts. In virtual time a tensor is its facts.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from faults.points import Kind
from runtime.contract.cache import ShapeCache, signature_of
from runtime.contract.damage import damaged
from runtime.contract.points import CONTRACT_BIND
from runtime.contract.repair import repairs
from runtime.contract.spec import Contract, TensorFacts
from runtime.contract.validate import violations_of
from runtime.contract.violation import ContractViolation
from runtime.core.env import Env

Tensor = TypeVar("Tensor")


class Tensors(Protocol[Tensor]):
    """Operations of a device on its own tensors."""

    def facts(self, tensor: Tensor) -> TensorFacts:
        """Shape, strides, dtype, device and address of `tensor`."""
        ...

    def laid_out(self, tensor: Tensor, facts: TensorFacts) -> Tensor:
        """A new tensor with these facts (its address modulo 128). It holds the values of `tensor` that fit, and zeros
        elsewhere."""
        ...


class PlannedTensors:
    """Implements `Tensors` for virtual time, without memory: a tensor is its planned facts."""

    def facts(self, tensor: TensorFacts) -> TensorFacts:
        """See Tensors."""
        return tensor

    def laid_out(self, tensor: TensorFacts, facts: TensorFacts) -> TensorFacts:
        """See Tensors."""
        return facts


class Binder(Generic[Tensor]):
    """Checks tensors against contracts and remembers those that keep them. All calls come from one thread.

    Counters: contract.violation for each check that fails, contract.copied and contract.cast for each tensor that is
    repaired, contract.cache_refused for an entry that belonged to another signature.
    """

    def __init__(self, env: Env, tensors: Tensors[Tensor], entries_max: int = 1024) -> None:
        self.cache = ShapeCache(env, entries_max)
        self.step: int | None = None
        self.request: str | None = None
        """The present step and its first request, which the fault points show."""
        self._env = env
        self._tensors = tensors

    def cross(
        self, contract: Contract, tensors: tuple[Tensor, ...], given: tuple[int, ...] = (), *, outputs: bool = False
    ) -> tuple[Tensor, ...]:
        """Checks `tensors`, in the order of the contract's inputs (or `outputs`), and returns those to go on with.

        The result is the given tuple when all tensors keep the contract, else a tuple with repaired copies. Raises
        ContractViolation with every violation when a copy or a lossless cast can't repair a tensor.
        """
        if self._env.faults.armed:
            tensors = self._damaged(contract, tensors, outputs)
        facts = [self._tensors.facts(tensor) for tensor in tensors]
        try:
            self.check(contract, facts, given, outputs=outputs)
            return tensors
        except ContractViolation as violation:
            tensors = self._repaired(contract, tensors, facts, outputs, violation)
        self.check(contract, [self._tensors.facts(tensor) for tensor in tensors], given, outputs=outputs)
        return tensors

    def check(
        self, contract: Contract, facts: Sequence[TensorFacts], given: tuple[int, ...] = (), *, outputs: bool = False
    ) -> None:
        """Checks `facts`. Raises ContractViolation with every violation; a failed check is not remembered."""
        signature = signature_of(contract, facts, given, outputs)
        if self.cache.holds(signature, contract.graph, self.step, self.request):
            return
        if violations := violations_of(contract, facts, given, outputs=outputs):
            self._env.counters.hit("contract.violation")
            raise ContractViolation(violations)
        self.cache.add(signature)

    def _damaged(self, contract: Contract, tensors: tuple[Tensor, ...], outputs: bool) -> tuple[Tensor, ...]:
        effect = self._env.faults.fire(CONTRACT_BIND, graph=contract.graph, step=self.step, request=self.request)
        if effect is None or effect.kind is not Kind.CORRUPT:
            return tensors
        at, facts = damaged(contract, [self._tensors.facts(tensor) for tensor in tensors], effect, outputs)
        return (*tensors[:at], self._tensors.laid_out(tensors[at], facts), *tensors[at + 1 :])

    def _repaired(
        self,
        contract: Contract,
        tensors: tuple[Tensor, ...],
        facts: list[TensorFacts],
        outputs: bool,
        violation: ContractViolation,
    ) -> tuple[Tensor, ...]:
        repaired = list(tensors)
        for at, dense in repairs(contract.specs(outputs), facts, violation):
            repaired[at] = self._tensors.laid_out(tensors[at], dense)
            self._env.counters.hit("contract.copied" if dense.dtype == facts[at].dtype else "contract.cast")
        return tuple(repaired)
