"""Chooses the damage that `contract.bind: corrupt` does to one tensor, by the random draw of the effect.

A fault that the contract can't detect would count as fired and break nothing. So an extent is changed only where
another tensor, a number or an earlier graph fixes it, and a stride only where a dim has several elements. Where neither
is possible (a launch of one token has no strides), a dim is added instead, which every contract detects.

Damage is described by facts; the device makes a real tensor with these facts (`binder.Tensors.laid_out`).
"""

from collections.abc import Callable, Iterator, Sequence

from faults import Effect
from runtime.contract.memory import dense_strides
from runtime.contract.spec import ITEM_BYTES, Contract, TensorFacts, TensorSpec

Damage = Callable[[TensorFacts], TensorFacts]
_OTHER_DTYPES = {"int64": ("int32", "float32"), "float32": ("float16", "float64")}


def damaged(
    contract: Contract, facts: Sequence[TensorFacts], effect: Effect, outputs: bool = False
) -> tuple[int, TensorFacts]:
    """The index of the damaged tensor and its facts with the damage that `effect.argument` names.

    `facts` are in the order of the contract.
    """
    fixed = contract.cross_checked
    named = list(enumerate(zip(contract.specs(outputs), facts, strict=True)))
    choices = [(at, way) for at, (spec, one) in named for way in _ways(effect.argument, fixed, spec, one)]
    choices = choices or [(at, _one_dim_more) for at, _ in named]
    at, damage = choices[effect.pick(len(choices), "damage")]
    return at, damage(facts[at])


def _ways(
    word: str | None, fixed: frozenset[tuple[str, int]], spec: TensorSpec, facts: TensorFacts
) -> Iterator[Damage]:
    match word:
        case "rank":
            yield _one_dim_more
        case "shape":
            axes = range(min(len(spec.extents), len(facts.shape)))
            yield from (_one_longer(axis) for axis in axes if (spec.name, axis) in fixed)
        case "dtype":
            yield from (_retyped(dtype) for dtype in _OTHER_DTYPES.get(spec.dtype, ("float64", "int8")))
        case "device":
            yield lambda one: one._replace(device="meta" if spec.device != "meta" else "cpu", address=0)
        case "stride":
            if 0 not in facts.shape:
                yield from (_doubled(axis) for axis, size in enumerate(facts.shape) if size > 1)
        case "align":
            if spec.alignment_bytes > 1 and 0 not in facts.shape:
                yield lambda one: one._replace(address=one.address - one.address % 128 + spec.alignment_bytes // 2)
        case _:
            raise AssertionError(f"a tensor can't be damaged by {word}")


def _one_dim_more(facts: TensorFacts) -> TensorFacts:
    """Adds a dim of size 1 at the end, as a wrong unsqueeze does. A `zip` over the shapes would not notice it."""
    return facts._replace(shape=(*facts.shape, 1), strides=(*facts.strides, 1))


def _one_longer(axis: int) -> Damage:
    def longer(facts: TensorFacts) -> TensorFacts:
        shape = (*facts.shape[:axis], facts.shape[axis] + 1, *facts.shape[axis + 1 :])
        return facts._replace(shape=shape, strides=dense_strides(shape))

    return longer


def _doubled(axis: int) -> Damage:
    """Doubles the stride of `axis` and of all slower dims, as if every second element of a larger tensor were used."""

    def doubled(facts: TensorFacts) -> TensorFacts:
        step = facts.strides[axis]
        return facts._replace(strides=tuple(stride * 2 if stride >= step else stride for stride in facts.strides))

    return doubled


def _retyped(dtype: str) -> Damage:
    assert dtype in ITEM_BYTES, f"{dtype} is not a dtype"
    return lambda one: one._replace(dtype=dtype)
