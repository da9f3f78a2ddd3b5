"""The door to the contract: one check a step, before the launch.

device's facts --contract.bind may damage them--> signature --> cache --miss--> bind --> Binding
                                                                |hit
                                                                '--> ragged rows only --> Binding
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from faults.points import Kind
from runtime.contract.cache import ShapeCache, signature_of
from runtime.contract.damage import damaged
from runtime.contract.points import CONTRACT_BIND
from runtime.contract.registry import Contract
from runtime.contract.spec import TensorFacts
from runtime.contract.validate import Binding, bind, row_violations
from runtime.contract.violation import ContractViolation
from runtime.core.env import Env

Inputs = TypeVar("Inputs")


class Binder:
    """Checks inputs against contracts, with a cache of what it has seen. One thread.

    Marks: contract.violation for each check that fails, contract.rebuilt for each second try, contract.cache_refused
    for an entry that belonged to another signature.
    """

    def __init__(self, env: Env, entries_max: int = 1024) -> None:
        self.cache = ShapeCache(env, entries_max)
        self._env = env

    def check(
        self, contract: Contract, facts: Sequence[TensorFacts], *, step: int | None = None, request: str | None = None
    ) -> Binding:
        """Bind `facts`. Raises ContractViolation with everything that is wrong; nothing of it is remembered."""
        if self._env.faults.armed:
            facts = self._crossed(contract, facts, step, request)
        signature = signature_of(contract, facts)
        binding = self.cache.get(contract, signature, step=step, request=request)
        try:
            if binding is None:
                binding = bind(contract, facts)
                self.cache.put(signature, binding)
            elif violations := row_violations(contract, facts):
                raise ContractViolation(violations)
        except ContractViolation:
            self._env.marks.hit("contract.violation")
            raise
        return binding

    def check_or_rebuild(
        self,
        contract: Contract,
        make: Callable[[], tuple[Inputs, Sequence[TensorFacts]]],
        *,
        step: int | None = None,
        request: str | None = None,
    ) -> tuple[Inputs, Binding]:
        """Make inputs and bind them; when they break the contract, make them once more. Raises ContractViolation when
        the second lot does too: then the 500 of those in `ContractViolation.rows`, or of all rows when it is None."""
        inputs, facts = make()
        try:
            return inputs, self.check(contract, facts, step=step, request=request)
        except ContractViolation:
            self._env.marks.hit("contract.rebuilt")
        inputs, facts = make()
        return inputs, self.check(contract, facts, step=step, request=request)

    def _crossed(
        self, contract: Contract, facts: Sequence[TensorFacts], step: int | None, request: str | None
    ) -> Sequence[TensorFacts]:
        effect = self._env.faults.fire(CONTRACT_BIND, graph=contract.io.graph, step=step, request=request)
        if effect is not None and effect.kind is Kind.CORRUPT:
            return damaged(contract, facts, effect)
        return facts
