"""A batch laid out and held against the contract of its model, before anything is launched with it."""

from runtime.contract.binder import Binder
from runtime.contract.registry import Contract, ContractKey, Registry
from runtime.contract.spec import IOSpec, TensorFacts
from runtime.contract.step import facts_of_work
from runtime.core.env import Env
from runtime.scheduling.batch import Batch, Bound, bind


class StepBinder:
    """One per engine. `io` is the engine's own contract: its bounds are the token budget, the rows and the pool."""

    def __init__(self, env: Env, io: IOSpec, block_tokens: int) -> None:
        self._env = env
        self._binder = Binder(env)
        self._registry = Registry()
        self._contracts: dict[str, Contract] = {}
        self._io = io
        self._block_tokens = block_tokens

    def bind(self, batch: Batch, step: int) -> Bound:
        """Laid out once more when it breaks its contract; raises ContractViolation when it breaks it again."""

        def lay_out() -> tuple[Bound, tuple[TensorFacts, ...]]:
            bound = bind(batch, step, self._block_tokens)
            if self._env.faults.armed:
                for claim in bound.reads:
                    claim.deep = True
            return bound, facts_of_work(bound.work)

        first = batch.rows[0].request.id
        return self._binder.check_or_rebuild(self._contract(batch.model_key), lay_out, step=step, request=first)[0]

    @property
    def is_warm(self) -> bool:
        """Whether the cache knows more than one shape, so that one could be taken for another."""
        return len(self._binder.cache) > 1

    def _contract(self, model: str) -> Contract:
        """Registered when the model is first launched."""
        if model not in self._contracts:
            self._contracts[model] = self._registry.register(ContractKey(model=model), self._io)
        return self._contracts[model]
