"""Specs refuse what could not be checked."""

import pytest

from runtime.contract.dims import Dim
from runtime.contract.spec import Contract, ContractKey, TensorSpec

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
        (lambda: Contract("g", (one("a", N), one("a", N))), 'two inputs are called "a"'),
        (lambda: Contract("g", (one("a", N),), (one("o", N), one("o", N))), 'two outputs are called "o"'),
        (
            lambda: Contract("g", (one("a", N), one("b", Dim("n", max=4)))),
            '"n" means two things: n in 0.. and n in 0..4',
        ),
        (lambda: Contract("g", (one("a", N * W),)), 'nothing in the inputs determines dim "n"'),
        (lambda: Contract("g", (one("a", N * N),)), 'nothing in the inputs determines dim "n" of n*n'),
        (lambda: Contract("g", (one("a", N),), (one("o", N * W),)), 'nothing in the inputs determines dim "w" of n*w'),
    ],
)
def test_a_spec_that_could_not_be_checked_is_refused(make, text):
    with pytest.raises(ValueError) as refused:
        make()
    assert text in str(refused.value)


def test_all_mistakes_of_a_spec_are_told_at_once():
    with pytest.raises(ValueError) as refused:
        TensorSpec("t", (-1,), "half", alignment_bytes=3)
    assert len(str(refused.value).split("; ")) >= 3
    with pytest.raises(ValueError) as refused:
        Contract("g", (one("a", N * W), one("a", Dim("n", min=1))))
    assert all(text in str(refused.value) for text in ("two inputs", "two things", 'determines dim "w"'))


def test_extents_that_nothing_else_settles_are_not_cross_checked():
    assert Contract("g", (one("a", N, 4), one("b", N, W))).cross_checked == {("a", 0), ("a", 1), ("b", 0)}


def test_digest_is_of_the_content():
    assert Contract("g", (one("a", N),)).digest == Contract("g", (one("a", N),)).digest
    others = [
        Contract("h", (one("a", N),)),
        Contract("g", (one("b", N),)),
        Contract("g", (one("a", Dim("n", max=3)),)),
        Contract("g", (one("a", N, alignment_bytes=8),)),
        Contract("g", (one("a", N),), (one("o", N),)),
        Contract("g", (TensorSpec("a", (N,), "int32"),)),
        Contract("g", (one("a", N),), key=ContractKey("chat", "m", "1")),
        Contract("g", (one("a", N),), key=ContractKey("chat", "m", "2")),
    ]
    assert len({Contract("g", (one("a", N),)).digest, *(other.digest for other in others)}) == 9
