"""Specs refuse what could not be checked; the registry never answers for another group, model or version."""

import pytest

from runtime.contract.dims import Dim
from runtime.contract.registry import ContractKey, Registry, UnknownContract
from runtime.contract.spec import IOSpec, Layout, TensorSpec

N, W = Dim("n"), Dim("w")


def one(name, *shape, **more):
    return TensorSpec(name, shape, "int64", **more)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TensorSpec("t", (N,), "int63"), 'dtype "int63" is not one of'),
        (lambda: one("t", N, alignment_bytes=12), "alignment_bytes is 12; give a power of two"),
        (lambda: one("t", N, alignment_bytes=0), "alignment_bytes is 0; give a power of two"),
        (lambda: one("t", -1, 3), "a dim that varies is a Dim, never -1"),
        (lambda: one("t", N, 3, layout=Layout.CHANNELS_LAST), "channels_last has 4 dims, not 2"),
        (lambda: IOSpec("g", (one("a", N), one("a", N))), 'two inputs are called "a"'),
        (lambda: IOSpec("g", (one("a", N),), (one("o", N), one("o", N))), 'two outputs are called "o"'),
        (
            lambda: IOSpec("g", (one("a", N), one("b", Dim("n", max=4)))),
            '"n" means two things: n in 0.. and n in 0..4',
        ),
        (lambda: IOSpec("g", (one("a", N * W),)), 'nothing in the inputs determines dim "n"'),
        (lambda: IOSpec("g", (one("a", N * N),)), 'nothing in the inputs determines dim "n" of n*n'),
        (lambda: IOSpec("g", (one("a", N),), (one("o", N + W),)), 'nothing in the inputs determines dim "w" of n + w'),
    ],
)
def test_a_spec_that_could_not_be_checked_is_refused(make, text):
    with pytest.raises(ValueError) as refused:
        make()
    assert text in str(refused.value)


def test_all_mistakes_of_a_spec_are_told_at_once():
    with pytest.raises(ValueError) as refused:
        TensorSpec("t", (-1,), "half", layout=Layout.CHANNELS_LAST, alignment_bytes=3)
    assert len(str(refused.value).split("; ")) >= 4
    with pytest.raises(ValueError) as refused:
        IOSpec("g", (one("a", N * W), one("a", Dim("n", min=1))))
    assert all(text in str(refused.value) for text in ("two inputs", "two things", 'determines dim "w"'))


def test_a_dim_that_only_a_chain_of_formulas_gives_is_determined():
    io = IOSpec("g", (one("a", N * W), one("b", 2 * W + N), one("c", N + 1)))
    assert io.cross_checked == {("a", 0)}


def test_extents_that_nothing_else_settles_are_not_cross_checked():
    assert IOSpec("g", (one("a", N, 4), one("b", N, W))).cross_checked == {("a", 0), ("a", 1), ("b", 0)}


def test_digest_is_of_the_content():
    assert IOSpec("g", (one("a", N),)).digest == IOSpec("g", (one("a", N),)).digest
    others = [
        IOSpec("h", (one("a", N),)),
        IOSpec("g", (one("b", N),)),
        IOSpec("g", (one("a", Dim("n", max=3)),)),
        IOSpec("g", (one("a", N, alignment_bytes=8),)),
        IOSpec("g", (one("a", N),), (one("o", N),)),
        IOSpec("g", (TensorSpec("a", (N,), "int32"),)),
    ]
    assert len({IOSpec("g", (one("a", N),)).digest, *(other.digest for other in others)}) == 7


def test_the_registry_answers_for_exactly_one_group_model_and_version():
    registry = Registry()
    first, second = IOSpec("g", (one("a", N),)), IOSpec("g", (one("a", N, 2),))
    registry.register(ContractKey("chat", "m", "1"), first)
    registry.register(ContractKey("lab", "m", "1"), second)
    assert registry.get(ContractKey("chat", "m", "1"), "g").io is first
    assert registry.get(ContractKey("lab", "m", "1"), "g").io is second
    for key in (ContractKey("chat", "m", "2"), ContractKey("chat", "n", "1"), ContractKey("", "m", "1")):
        with pytest.raises(UnknownContract, match=r'nothing is registered for .*; known: \(group "chat"'):
            registry.get(key, "g")


def test_an_unknown_graph_gets_the_nearest_name():
    registry = Registry()
    registry.register(ContractKey(), IOSpec("decode", ()))
    with pytest.raises(UnknownContract, match=r'no graph "decoed" .* did you mean "decode"'):
        registry.get(ContractKey(), "decoed")


def test_a_contract_is_never_edited_only_removed():
    registry = Registry()
    key, other = ContractKey("chat", "m", "1"), ContractKey("lab", "m", "1")
    old = registry.register(key, IOSpec("g", (one("a", N),)))
    registry.register(other, IOSpec("g", (one("a", N),)))
    with pytest.raises(ValueError, match=r'graph "g" of .* has a contract; remove it'):
        registry.register(key, IOSpec("g", (one("a", N, 2),)))
    assert registry.remove(key) == (old,)
    assert registry.remove(key) == ()
    assert registry.register(key, IOSpec("g", (one("a", N, 2),))).identity != old.identity
    assert registry.get(other, "g").io.inputs[0].shape == (N,)
