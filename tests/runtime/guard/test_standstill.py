"""The graph of who waits for what, on a bench whose device and clock are moved by hand."""

from runtime.core.messages import Cancel
from runtime.guard.standstill import LOOKS_MIN, StandstillWatch, standstill, waits
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import Bench

BOUND_NS = 10_000_000_000


def found(bench: Bench) -> str:
    text = standstill(bench.engine.scene(), BOUND_NS)
    assert text is not None
    return text


def waits_of(bench: Bench) -> str:
    return "; ".join(waits(bench.engine.scene()))


def test_an_idle_engine_and_one_that_has_just_got_work_stand_not_still():
    bench = Bench()
    assert standstill(bench.engine.scene(), BOUND_NS) is None
    bench.clock.advance(1000)
    bench.submit([1, 2, 3])
    assert standstill(bench.engine.scene(), BOUND_NS) is None
    assert waits_of(bench) == "r0 -> the engine's next step, which reads the mail"


def test_a_launch_that_the_device_has_is_no_standstill_however_long():
    bench = Bench()
    bench.submit([1, 2, 3])
    bench.engine.step()
    bench.clock.advance(50)
    assert standstill(bench.engine.scene(), BOUND_NS) is None


def test_mail_that_nobody_reads_is_one():
    bench = Bench()
    bench.submit([1, 2, 3])
    bench.clock.advance(11)
    assert "nothing has moved for 11.0 s: the engine does not read its mail; r0 -> the engine" in found(bench)


def test_a_completion_that_was_not_landed_names_its_ticket_and_its_requests():
    bench = Bench()
    bench.submit([1, 2, 3])
    bench.submit([4, 5, 6])
    bench.engine.step()
    bench.device.complete()
    bench.clock.advance(11)
    assert found(bench) == "ticket 0 (step 1) was done 11.0 s ago and has not landed; r0, r1 -> ticket 0 (step 1)"


def test_a_completion_that_the_device_lost_is_named_too(monkeypatch):
    bench = Bench()
    bench.submit([1, 2, 3])
    bench.engine.step()
    monkeypatch.setattr(bench.device, "holds", lambda ticket: False)
    bench.clock.advance(11)
    assert found(bench).startswith("the completion of ticket 0 (step 1), launched 11.0 s ago, is lost: the device has")


def test_the_queue_waits_for_the_place_of_its_head_which_waits_for_blocks_of_one_that_runs():
    bench = Bench(blocks=4, limits=Limits(token_budget=16, seqs_max=4, waiting_max=8))
    for _ in range(3):
        bench.submit([1] * 10, max_tokens=4)
    bench.engine.step()
    said = waits_of(bench)
    assert "r2 -> the place of r1 in the queue; r1 -> 3 KV blocks (1 reclaimable, 0 in limbo)" in said
    assert "KV blocks -> r0 (3)" in said
    assert "r0 -> ticket 0 (step 1)" in said


def test_a_full_batch_is_named_by_those_in_it():
    bench = Bench(limits=Limits(token_budget=16, seqs_max=1, waiting_max=8))
    bench.submit([1, 2])
    bench.submit([3, 4])
    bench.engine.step()
    assert "r1 -> a place in the batch, which r0 have" in waits_of(bench)


def test_blocks_that_an_ended_request_still_holds_are_told_as_that():
    bench = Bench(blocks=4)
    bench.env.ledger.acquire(bench.pool.name, "r9", [0, 1, 2])
    bench.submit([1] * 10)
    bench.engine._read_mail()
    assert "r9 (3), which have ended and hold them" in waits_of(bench)


def test_blocks_in_limbo_behind_a_ticket_that_landed_were_never_released(monkeypatch):
    bench = Bench()
    name = bench.submit([1, 2, 3])
    bench.engine.step()
    bench.mailbox.post(Cancel(name))
    bench.engine.step()
    (entry,) = bench.env.ledger.limbo()
    bench.device.complete()
    bench.engine.step()
    bench.env.ledger._limbo.append(entry)
    bench.clock.advance(11)
    assert "of r0 were never released: ticket 0 (step 1) was done 11.0 s ago" in found(bench)


def test_the_watch_tells_once_after_several_looks_and_not_when_it_slept_itself():
    bench, answers = Bench(), ["stands"] * 99
    watch = StandstillWatch(bench.env, 10.0, lambda bound_ns: answers.pop())

    def looks(seconds: float, n: int) -> list[str]:
        heard = []
        for _ in range(n):
            bench.clock.advance(seconds)
            heard += [text for text in [watch.look()] if text is not None]
        return heard

    assert looks(5, 10) == [], "whoever looks so seldom has stood still itself"
    assert looks(1, LOOKS_MIN - 1) == []
    assert looks(1, 10) == ["stands"]
    assert [event.kind for event in bench.env.events.take()] == ["stalled"]
