"""One contract of serving, over HTTP and in virtual time: the same events, outcome, code and `served` row."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.load.outcome import Outcome
from runtime.core.messages import Cancel, End, Submit
from tests.contract.serving.worlds import WORLDS, World, arm, passes, turn

GOOD = ["head", "tokens 10", "tokens 20", "tokens 30", "tokens 40", "finished stop", "counts 2/4", "done"]
Make = Callable[..., World]


@pytest.fixture(params=WORLDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[World] = []

    def make(**settings: int) -> World:
        made.append(WORLDS[request.param](tmp_path, **settings))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(make: Make) -> World:
    return make()


def row(world: World) -> tuple[object, ...]:
    (found,) = world.rows()
    return found.request, found.outcome, found.code, found.finish, found.tokens_out


def cancels(world: World) -> list[str]:
    """Why the engine was told to stop, as far as it has taken its mail."""
    world.engine.turn()
    return [mail.why for mail in world.engine.seen if isinstance(mail, Cancel)]


def to_the_end(world: World) -> None:
    for _ in range(6):
        turn(world)


def test_a_stream_is_head_tokens_reason_counts_and_done(world: World) -> None:
    world.ask()
    assert world.heard == []
    to_the_end(world)
    assert world.heard == GOOD
    assert row(world) == ("r", "ok", None, "stop", 4)
    assert world.outcome() is Outcome.OK


def test_an_answer_in_one_piece_comes_at_the_end(world: World) -> None:
    world.ask(stream=False)
    turn(world)
    assert world.heard == []
    to_the_end(world)
    assert world.heard == ["whole 10 20 30 40 stop 2/4"]
    assert row(world) == ("r", "ok", None, "stop", 4)


def test_as_many_tokens_as_were_asked_for_end_by_length(world: World) -> None:
    world.ask(max_tokens=2)
    to_the_end(world)
    assert world.heard == ["head", "tokens 10", "tokens 20", "finished length", "counts 2/2", "done"]
    assert row(world) == ("r", "ok", None, "length", 2)


ENDS = [
    (End("refused", 429, "out_of_blocks", "no blocks"), "refused 429 out_of_blocks 1", Outcome.REFUSED),
    (End("timeout", 504, "deadline_exceeded", "late"), "refused 504 deadline_exceeded", Outcome.TIMEOUT),
    (End("http_error", 500, "launch_failed", "failed"), "refused 500 launch_failed", Outcome.HTTP_ERROR),
    (End("fatal", 503, "engine_dead", "lost"), "refused 503 engine_dead 2", Outcome.HTTP_ERROR),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("end", "heard", "outcome"), ENDS, ids=[each[1] for each in ENDS])
def test_a_bad_end_before_the_head_is_a_true_http_error(
    world: World, stream: bool, end: End, heard: str, outcome: Outcome
) -> None:
    world.ask(stream=stream)
    submit = world.engine.mail(Submit)
    assert isinstance(submit, Submit)
    world.engine.end(submit.request_id, end)
    world.settle()
    assert world.heard == [heard]
    assert row(world) == ("r", end.outcome, end.code, None, 0)
    assert world.outcome() is outcome


@pytest.mark.parametrize(("end", "heard", "outcome"), ENDS, ids=[each[1] for each in ENDS])
def test_a_bad_end_after_the_head_is_told_in_band(world: World, end: End, heard: str, outcome: Outcome) -> None:
    world.ask()
    turn(world)
    (request,) = [mail.request_id for mail in world.engine.seen if isinstance(mail, Submit)]
    world.engine.end(request, end)
    world.settle()
    assert world.heard == ["head", "tokens 10", f"in band {end.code}"]
    booked = "inband_error" if end.outcome == "http_error" else end.outcome
    assert row(world) == ("r", booked, end.code, None, 1)
    assert world.marks() == {"stream.inband_error": 1}
    assert world.outcome() is (Outcome.INBAND_ERROR if outcome is Outcome.HTTP_ERROR else outcome)


def test_a_full_inbox_refuses_and_is_counted(make: Make) -> None:
    world = make(submits_max=0)
    world.ask()
    assert world.heard == ["refused 429 queue_full 1"]
    assert row(world) == ("r", "refused", "queue_full", None, None)
    assert world.marks() == {"mailbox.full": 1}


def test_more_than_the_context_holds_is_refused(world: World) -> None:
    world.ask(max_tokens=world.engine.context_tokens - 1)
    assert world.heard == ["refused 400 context_length_exceeded"]
    assert row(world) == ("r", "http_error", "context_length_exceeded", None, None)


def test_nobody_is_let_in_after_the_engine_died(world: World) -> None:
    world.engine.die()
    world.ask()
    assert world.heard == ["refused 503 engine_dead 2"]
    assert row(world)[1:3] == ("fatal", "engine_dead")


CODES = ["invalid_json", "invalid_json", *["invalid_value"] * 3, "context_length_exceeded", *["invalid_json"] * 2]


@pytest.mark.parametrize(("plan_row", "code"), list(enumerate(CODES)))
def test_each_malformed_body_is_refused_by_its_own_code(world: World, plan_row: int, code: str) -> None:
    world.ask(malformed=plan_row)
    assert world.heard == [f"refused 400 {code}"]
    assert row(world) == ("r", "http_error", code, None, None)


@pytest.mark.parametrize("skip", range(6))
def test_a_cut_ends_the_stream_before_the_event_that_crossed(world: World, skip: int) -> None:
    arm(world, "server.stream: cut", when={"skip": skip})
    world.ask()
    to_the_end(world)
    assert world.heard == [*GOOD[: skip + 1], "cut"]
    assert row(world)[:3] == ("r", "cancelled", "stream_cut")
    assert world.marks() == {"stream.cut": 1}
    assert world.outcome() is Outcome.TRUNCATED


@pytest.mark.parametrize("skip", range(6))
def test_a_broken_stream_is_told_in_band_and_the_engine_stops(world: World, skip: int) -> None:
    arm(world, "server.stream: error", when={"skip": skip})
    world.ask()
    to_the_end(world)
    assert world.heard == [*GOOD[: skip + 1], "in band stream_error"]
    assert row(world)[:3] == ("r", "inband_error", "stream_error")
    assert cancels(world) == (["stream_error"] if skip < 3 else [])


@pytest.mark.parametrize("how", ["over", "healed"])
def test_a_delay_holds_back_all_that_follows_until_it_is_over_or_healed(world: World, how: str) -> None:
    arm(world, "server.stream: delay 20s", when={"skip": 1}, ttl_s=60.0)
    world.ask()
    to_the_end(world)
    assert world.heard == GOOD[:2]
    if how == "over":
        passes(world, 21)
    else:
        world.engine.env.faults.heal("f", "harness")
        world.settle()
    assert world.heard == GOOD
    assert row(world) == ("r", "ok", None, "stop", 4)


def test_a_client_that_leaves_during_a_delay_hears_no_more(world: World) -> None:
    arm(world, "server.stream: delay 20s", when={"skip": 1}, ttl_s=60.0)
    world.ask()
    turn(world)
    turn(world)
    world.leave()
    passes(world, 21)
    assert world.heard == GOOD[:2]
    assert cancels(world) == ["client_gone"]
    world.settle()
    assert row(world)[:3] == ("r", "cancelled", "client_gone")


@pytest.mark.parametrize(("phase", "heard"), [("prefill", GOOD[:1]), ("decode", GOOD[:2])])
def test_the_phase_is_prefill_up_to_the_first_token(world: World, phase: str, heard: list[str]) -> None:
    arm(world, "server.stream: cut", scope={"phase": phase})
    world.ask()
    to_the_end(world)
    assert world.heard == [*heard, "cut"]


@pytest.mark.parametrize(("scope", "hit"), [({"load": "l"}, True), ({"load": "m"}, False)])
def test_a_fault_hits_its_scope_alone(world: World, scope: dict[str, str], hit: bool) -> None:
    arm(world, "server.stream: cut", scope=scope)
    world.ask()
    to_the_end(world)
    assert (world.heard[-1] == "cut") is hit


@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_is_cancelled_and_its_row_waits_for_the_engine(
    world: World, stream: bool, turns: int
) -> None:
    world.ask(stream=stream)
    for _ in range(turns):
        turn(world)
    world.leave()
    assert world.rows() == []
    assert cancels(world) == ["client_gone"]
    world.settle()
    assert row(world) == ("r", "cancelled", "client_gone", None, turns)
    assert world.outcome() is Outcome.CANCELLED


@pytest.mark.parametrize("turns", [0, 2])
def test_an_engine_that_says_nothing_long_after_the_deadline_is_spoken_for(world: World, turns: int) -> None:
    world.ask()
    for _ in range(turns):
        turn(world)
    passes(world, 60)
    assert not world.heard or "deadline" not in world.heard[-1]
    passes(world, 5)
    assert world.heard[-1] == ("in band deadline_exceeded" if turns else "refused 504 deadline_exceeded")
    assert row(world) == ("r", "timeout", "deadline_exceeded", None, 0)
    assert cancels(world) == ["the request's deadline has passed, and the engine does not answer"]


Steps = st.lists(st.sampled_from(["turn", "turn", "turn", "leave", "pass", "end", "heal", "die"]), max_size=9)
Faults = st.sampled_from(["", "server.stream: cut", "server.stream: error", "server.stream: delay 20s"])


@settings(max_examples=120, deadline=None)
@given(st.booleans(), st.integers(1, 5), Faults, st.integers(0, 5), st.integers(1, 3), Steps)
def test_any_script_is_lived_alike_in_both_worlds(
    tmp_path_factory: pytest.TempPathFactory,
    stream: bool,
    max_tokens: int,
    do: str,
    skip: int,
    per_turn: int,
    steps: list[str],
) -> None:
    lived = []
    for make in WORLDS.values():
        world = make(tmp_path_factory.getbasetemp())
        world.engine.per_turn = per_turn
        if do:
            arm(world, do, when={"skip": skip, "times": 2}, ttl_s=100.0)
        world.ask(stream=stream, max_tokens=max_tokens)
        for step in steps:
            _live(world, step)
        passes(world, 70)
        world.engine.turn()
        world.settle()
        mail = [(type(each).__name__, getattr(each, "why", "")) for each in world.engine.seen]
        lived.append((world.heard, world.rows(), world.marks(), world.outcome(), mail))
        assert len(world.rows()) == 1
        world.close()
    assert lived[0] == lived[1]


def _live(world: World, step: str) -> None:
    match step:
        case "turn":
            turn(world)
        case "leave":
            world.leave()
        case "pass":
            passes(world, 12)
        case "heal":
            world.engine.env.faults.heal_all("harness")
            world.settle()
        case "die":
            world.engine.die()
            world.settle()
        case "end":
            for request in [mail.request_id for mail in world.engine.seen if isinstance(mail, Submit)]:
                world.engine.end(request, End("http_error", 500, "kv_corruption", "damaged"))
            world.settle()
