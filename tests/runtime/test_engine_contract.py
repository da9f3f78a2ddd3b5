"""The engine and its contract: inputs rebuilt once, else a 500 for those named, and bystanders never notice."""

import pytest

from faults import FaultSpec, When, parse_do
from runtime.contract.step import facts_of_work
from tests.runtime.fakes import Bench, expected_tokens

PROMPTS = [(1, 2, 3), (4, 5), (6, 7, 8, 9)]


def arm(bench, do, **when):
    bench.faults.arm([FaultSpec(id="f", n=0, do=parse_do(do), when=When(**when))])


def outcomes(bench, names):
    return [(bench.sink.ended[name].end.http, bench.sink.ended[name].end.code) for name in names]


@pytest.mark.parametrize("word", ["shape", "dtype", "stride", "device"])
def test_inputs_broken_once_are_rebuilt_and_nobody_notices(word):
    bench = Bench()
    names = [bench.submit(prompt) for prompt in PROMPTS]
    arm(bench, f"contract.bind: corrupt {word}", times=1, skip=2)
    bench.run()
    for name, prompt in zip(names, PROMPTS, strict=True):
        assert bench.sink.tokens[name] == expected_tokens(prompt, 4)
    assert bench.env.marks.total["contract.violation"] == bench.env.marks.total["contract.rebuilt"] == 1
    assert bench.leftovers() == []


def test_inputs_broken_twice_end_their_batch_and_only_that():
    bench = Bench()
    names = [bench.submit(prompt) for prompt in PROMPTS]
    bench.turn()
    arm(bench, "contract.bind: corrupt dtype", times=2)
    bench.turn()
    late = bench.submit((5, 5))
    bench.run()
    assert outcomes(bench, names) == [(500, "contract_violation")] * 3
    assert bench.sink.tokens[late] == expected_tokens((5, 5), 4)
    assert bench.leftovers() == []


def test_a_row_with_a_broken_table_is_failed_and_its_bystanders_are_not(monkeypatch):
    bench = Bench()
    names = [bench.submit(prompt) for prompt in PROMPTS]
    bench.turn()

    def one_table_lost(work, device="cpu"):
        made = facts_of_work(work, device)
        rows = zip(work.request_ids, made[-1].shape[1], strict=True)
        lengths = tuple(0 if name == names[1] else length for name, length in rows)
        return (*made[:-1], made[-1]._replace(shape=(len(lengths), lengths)))

    monkeypatch.setattr("runtime.scheduling.bound.facts_of_work", one_table_lost)
    bench.run()
    assert outcomes(bench, names) == [(200, None), (500, "contract_violation"), (200, None)]
    for name, prompt in ((names[0], PROMPTS[0]), (names[2], PROMPTS[2])):
        assert bench.sink.tokens[name] == expected_tokens(prompt, 4)
    assert bench.leftovers() == []


def test_a_lying_cache_changes_no_token():
    bench = Bench()
    names = [bench.submit(prompt, max_tokens=8) for prompt in PROMPTS]
    arm(bench, "contract.cache: lie", times=None)
    bench.run()
    for name, prompt in zip(names, PROMPTS, strict=True):
        assert bench.sink.tokens[name] == expected_tokens(prompt, 8)
    assert bench.env.marks.total["contract.cache_refused"] == len(bench.fires) > 0
