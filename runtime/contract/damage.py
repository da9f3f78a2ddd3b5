"""What `contract.bind: corrupt` does to facts: damage that a validator must see, chosen by the effect's own draw.

Damage that a contract can't see would count as fired and break nothing. So an extent is changed only where another
tensor or a number fixes it, and a stride only where the layout fixes that; where neither can be done (a launch of one
token has no strides), a dim is added instead, which every contract sees.
"""

from collections.abc import Callable, Sequence

from faults import Effect
from runtime.contract.registry import Contract
from runtime.contract.spec import Layout, TensorFacts, TensorSpec

Damage = Callable[[TensorFacts], TensorFacts]


def damaged(contract: Contract, facts: Sequence[TensorFacts], effect: Effect) -> tuple[TensorFacts, ...]:
    """`facts` with one tensor damaged as `effect.argument` says."""
    specs = {spec.name: spec for spec in contract.io.inputs}
    named = [(at, one, specs[one.name]) for at, one in enumerate(facts) if one.name in specs]
    choices = [(at, damage) for at, one, spec in named for damage in _ways(effect.argument, contract, spec, one)]
    choices = choices or [(at, _one_dim_more) for at, _, _ in named]
    at, damage = choices[effect.pick(len(choices), "damage")]
    return (*facts[:at], damage(facts[at]), *facts[at + 1 :])


def _ways(word: str | None, contract: Contract, spec: TensorSpec, facts: TensorFacts) -> list[Damage]:
    match word:
        case "dtype":
            return [lambda one: one._replace(dtype="int32" if spec.dtype != "int32" else "float16")]
        case "device":
            return [lambda one: one._replace(device="meta" if spec.device != "meta" else "cpu")]
        case "stride":
            return [_doubled(axis) for axis in _strides_fixed(spec, facts)]
        case _:
            return [_one_dim_more, *_extents_fixed(contract, spec, facts)]


def _one_dim_more(facts: TensorFacts) -> TensorFacts:
    """As after one unsqueeze too many: what lines up still fits, so a `zip` lets it pass."""
    return facts._replace(shape=(*facts.shape, 1), strides=(*facts.strides, 1))


def _one_longer(axis: int) -> Damage:
    def longer(facts: TensorFacts) -> TensorFacts:
        size = facts.shape[axis]
        assert isinstance(size, int)
        return facts._replace(shape=(*facts.shape[:axis], size + 1, *facts.shape[axis + 1 :]))

    return longer


def _doubled(axis: int) -> Damage:
    def doubled(facts: TensorFacts) -> TensorFacts:
        strides = list(facts.strides)
        strides[axis] *= 2
        return facts._replace(strides=tuple(strides))

    return doubled


def _extents_fixed(contract: Contract, spec: TensorSpec, facts: TensorFacts) -> list[Damage]:
    """One longer, at each dim that others settle."""
    axes = range(min(len(spec.extents), len(facts.shape)))
    return [_one_longer(axis) for axis in axes if (spec.name, axis) in contract.io.cross_checked]


def _strides_fixed(spec: TensorSpec, facts: TensorFacts) -> list[int]:
    """Dims whose stride the layout leaves no choice."""
    if spec.layout in (Layout.STRIDED, Layout.RAGGED) or 0 in facts.shape:
        return []
    return [axis for axis, size in enumerate(facts.shape) if isinstance(size, int) and size > 1]
