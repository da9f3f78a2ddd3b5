from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import Bench


def test_preempted_request_keeps_its_place_before_those_that_arrived_after_it():
    bench = Bench(blocks=6, limits=Limits(token_budget=32, seqs_max=2, waiting_max=8, expected_output=0.0))
    bench.submit(range(8), max_tokens=10)
    second = bench.submit(range(8), max_tokens=10)
    third = bench.submit([1], max_tokens=3)
    while not bench.env.counters.total["kv.preempt"]:
        bench.turn()
    assert [request.id for request in bench.engine.scheduler.waiting] == [second, third]


def test_who_came_first_is_never_preempted_for_who_came_later():
    bench = Bench(blocks=8, limits=Limits(token_budget=32, seqs_max=4, waiting_max=8, expected_output=0.0))
    names = [bench.submit(range(i, i + 6), max_tokens=12) for i in range(4)]
    bench.run()
    preempted = [bench.sink.ended[name].preempted for name in names]
    assert preempted[0] == 0
    assert sum(preempted) >= 1
    done = [bench.sink.ended[name].end_ns for name in names]
    assert done == sorted(done)


def test_no_admission_that_would_preempt_those_who_run_at_their_next_block():
    bench = Bench(blocks=4, limits=Limits(token_budget=32, seqs_max=4, waiting_max=8, expected_output=0.0))
    bench.submit(range(7), max_tokens=4)
    bench.turn()
    bench.submit(range(7), max_tokens=4)
    bench.turn()
    assert (bench.engine.status.running, bench.engine.status.waiting) == (1, 1)
    assert bench.env.counters.total["kv.preempt"] == 0
