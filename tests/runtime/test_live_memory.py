"""Memory of the real runtime: engine, device thread, torch model and pools, with faults in the pools of its launches.

Turns are made by the test: the engine's thread is not started, so that what runs beside what is the same every time.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from faults import FaultSpec, Scope, When, parse_do
from runtime.build import Runtime, build_served
from runtime.core.messages import Output, Submit
from runtime.core.work import Sampling
from runtime.device.torch_segments import SENTINEL
from runtime.memory.assembly import STEPS_MAX
from runtime.memory.spans.span import PoolKind, Span
from runtime.models.config import ModelRefused

KNOBS: dict[str, object] = {"kv_blocks": 32, "token_budget": 64, "seqs_max": 4, "threads": 1}
WAIT_S = 20.0
PROMPTS = {"a": (5, 6, 7, 8), "b": tuple(range(40, 60)), "c": (9,) * 30}


class Witness:
    """Keeps what fired."""

    def __init__(self) -> None:
        self.fires: list[Any] = []

    def fire(self, fire: Any) -> None:
        self.fires.append(fire)

    def fault(self, state: Any) -> None:
        return None


class Live:
    """A runtime whose turns we make."""

    def __init__(self, **knobs: object) -> None:
        self.witness, self.armed = Witness(), 0
        self.runtime: Runtime = build_served(KNOBS | knobs, self.witness)
        self.tokens: dict[str, list[int]] = {}
        self.ended: dict[str, Any] = {}
        self.runtime.start(self, threaded=False)

    def step(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            self.tokens.setdefault(output.request_id, []).extend(sampled.token for sampled in output.tokens)
            if output.ended is not None:
                self.ended[output.request_id] = output.ended.end

    def submit(self, *names: str, max_tokens: int = 6) -> None:
        now_ns = self.runtime.env.clock.now_ns()
        for name in names:
            prompt = PROMPTS[name.partition("-")[0]]
            submit = Submit(name, prompt, max_tokens, Sampling(), now_ns, now_ns + 600 * 10**9)
            assert self.runtime.mailbox.offer(submit)

    def run(self, *names: str, max_tokens: int = 6) -> None:
        """Until they have ended."""
        self.submit(*names, max_tokens=max_tokens)
        while not set(names) <= set(self.ended):
            self.runtime.turn()
            if not set(names) <= set(self.ended):
                self.runtime.mailbox.wait(WAIT_S)

    def arm(self, do: str, pool: str | None = None, **when: object) -> None:
        self.armed += 1
        scope = Scope(pool=pool)
        spec = FaultSpec(id="f", n=self.armed, do=parse_do(do), when=When(**when), scope=scope)  # type: ignore[arg-type]
        self.runtime.env.faults.arm([spec])

    def leaks(self) -> list[tuple[str, str, int]]:
        rows = self.runtime.audit("quiesce")
        judged = [row for row in rows if row.kind in ("live", "limbo")]
        return [(row.name, row.owner, row.value) for row in judged if row.value != (row.expected or 0) and row.owner]


@pytest.fixture
def live() -> Iterator[Live]:
    made = Live()
    yield made
    made.runtime.close()


def test_a_launch_that_gets_no_activations_is_repeated_and_every_token_is_as_without(live: Live):
    live.run("a-0", "b-0")
    live.arm("memory.alloc: oom", pool="activation", skip=9, times=2)
    live.run("a-1", "b-1")
    assert {one.outcome for one in live.ended.values()} == {"ok"}
    assert (live.tokens["a-1"], live.tokens["b-1"]) == (live.tokens["a-0"], live.tokens["b-0"])
    marks = live.runtime.env.counters.total
    assert marks["memory.out_of_memory"] >= 1 <= marks["engine.step_repeated"]
    assert not live.leaks()


def test_a_batch_whose_launch_fails_twice_ends_alone_and_who_comes_next_is_served(live: Live):
    live.run("a-0", "c-0")
    live.arm("memory.alloc: oom", pool="activation", times=None)
    live.run("a-1", "b-1")
    assert {(live.ended[name].http, live.ended[name].code) for name in ("a-1", "b-1")} == {(429, "out_of_memory")}
    assert live.runtime.env.counters.total["engine.step_failed"] >= 1
    assert not live.leaks()
    assert live.runtime.env.faults.heal("f", "test") == 1
    live.run("a-2", "c-2")
    assert (live.tokens["a-2"], live.tokens["c-2"]) == (live.tokens["a-0"], live.tokens["c-0"])


def test_scratch_that_is_refused_fails_the_launch_and_its_repeat_is_whole(live: Live):
    live.run("c-0")
    live.arm("memory.alloc: oom", pool="workspace", skip=1, times=1)
    live.run("c-1")
    assert live.ended["c-1"].outcome == "ok"
    assert live.tokens["c-1"] == live.tokens["c-0"]
    assert live.runtime.env.counters.total["engine.step_repeated"] == 1


def test_a_lost_reset_is_a_leak_of_its_step_and_is_taken_back_when_room_is_short(live: Live):
    live.run("a-0")
    live.arm("memory.reset: drop", pool="activation", times=1)
    live.run("a-1")
    ((name, owner, spans),) = live.leaks()
    assert (name, spans) == ("activation_spans", 4)
    assert owner == live.witness.fires[0].request == f"step-{owner.removeprefix('step-')}"
    live.runtime.env.faults.clean()
    live.arm("memory.reset: drop", pool="activation", times=STEPS_MAX)
    live.run("b-2", max_tokens=12)
    live.runtime.env.faults.clean()
    live.run("a-3", max_tokens=60)
    assert live.ended["a-3"].outcome == "ok"
    assert live.tokens["a-3"][:6] == live.tokens["a-0"]


def test_steady_decode_makes_no_segment_and_all_bytes_have_an_owner(live: Live):
    live.run("a-0", "b-0", "c-0", max_tokens=20)
    segments = live.runtime._space.segments
    made = segments.reserved
    live.run("a-1", "b-1", "c-1", max_tokens=40)
    assert segments.reserved == made
    usages = {usage.pool: usage for usage in live.runtime.measure_memory().pools}
    assert {"kv", "io", "weight", "activation", "workspace"} == set(usages)
    assert all(usage.conserved for usage in usages.values())
    assert usages["activation"].live == usages["workspace"].live == 0
    assert usages["activation"].allocs - usages["activation"].hits == 1
    assert usages["weight"].held_bytes > 1_000_000


@pytest.mark.parametrize("exact", [False, True])
def test_poison_changes_no_token_and_what_came_back_is_overwritten(exact: bool):
    plain, poisoned = Live(exact=exact), Live(exact=exact, poison=True)
    try:
        for one in (plain, poisoned):
            one.run("a-0", "b-0", "c-0", max_tokens=12)
        assert poisoned.tokens == plain.tokens
        segments = poisoned.runtime._space.segments
        arena = segments.bytes_of(Span("activation", 0, 0, 4096, 0))
        assert arena.eq(SENTINEL).all()
        assert not plain.runtime._space.segments.bytes_of(Span("activation", 0, 0, 4096, 0)).eq(SENTINEL).all()
    finally:
        plain.runtime.close()
        poisoned.runtime.close()


def test_figures_are_published_by_the_engines_turns(live: Live):
    live.run("a-0")
    memory = live.runtime.memory
    assert {usage.pool for usage in memory.pools} == {"kv", "io", "weight", "activation", "workspace"}
    assert memory.unowned_bytes["prefill"] > 0
    assert memory.free_bytes is None or memory.free_bytes > 0


def test_a_lie_about_free_memory_is_felt_as_pressure_and_harms_nobody(live: Live):
    live.run("a-0")
    live.arm("device.mem_info: lie 1", times=None)
    live.runtime._maintenance._next_ns = 0  # type: ignore[union-attr]
    live.run("a-1")
    assert live.runtime.env.counters.total["memory.pressure"] >= 1
    assert live.tokens["a-1"] == live.tokens["a-0"]


def test_under_pressure_the_swap_pool_grows_no_further_and_every_request_is_served_with_its_tokens():
    live = Live(kv_blocks=6, expected_output=0.0, preemption="swap", swap_blocks=16)
    totals = live.runtime.env.counters.total

    def crowd(round_: int) -> tuple[int, int]:
        """Three requests that need twice the blocks: copies to the host, and refusals of them."""
        before = totals["swap.out"], totals["swap.refused"]
        live.runtime._maintenance._next_ns = 0  # type: ignore[union-attr]
        live.run(*(f"{name}-{round_}" for name in "abc"), max_tokens=40)
        for name in "abc":
            assert live.ended[f"{name}-{round_}"].outcome == "ok"
            assert live.tokens[f"{name}-{round_}"] == live.tokens[f"{name}-0"]
        return totals["swap.out"] - before[0], totals["swap.refused"] - before[1]

    try:
        swapped, refused = crowd(0)
        assert swapped > 0 == refused
        live.arm("device.mem_info: lie 1", times=None)
        swapped, refused = crowd(1)
        assert refused > 0 == swapped
        assert totals["memory.reject"] == refused
        live.runtime.env.faults.heal("f", "test")
        swapped, refused = crowd(2)
        assert swapped > 0 == refused
    finally:
        live.runtime.close()


def test_kv_is_sized_from_what_the_device_says_and_a_lie_makes_it_small():
    lie = FaultSpec(id="f", n=0, do=parse_do("device.mem_info: lie 16"))
    few = build_served(KNOBS | {"kv_blocks": 0}, Witness(), [lie])
    most = build_served(KNOBS | {"kv_blocks": 0}, Witness())
    assert 1 <= int(str(few.info["kv_blocks"])) < int(str(most.info["kv_blocks"]))
    none = FaultSpec(id="f", n=0, do=parse_do("device.mem_info: lie 1"))
    with pytest.raises(ValueError, match=r"no block of \d+ B fits beside the weights"):
        build_served(KNOBS | {"kv_blocks": 0}, Witness(), [none])


@pytest.mark.parametrize(("do", "text"), [("error", "can't be read: injected"), ("corrupt bit_flip", "try again")])
def test_weights_that_cannot_be_trusted_stop_the_start_with_their_reason(do: str, text: str):
    witness = Witness()
    spec = FaultSpec(id="f", n=0, do=parse_do(f"weights.read: {do}"))
    with pytest.raises(ModelRefused, match=text):
        build_served(KNOBS, witness, [spec])
    assert len(witness.fires) == 1


def test_weights_lie_in_the_pool_and_stay(live: Live):
    held = live.runtime._space.pools[PoolKind.WEIGHT]
    assert all(request.lifetime.name == "GLOBAL" for _, request in held.live())
    assert not [row for row in live.runtime.audit("drain") if row.name.startswith("weight") and row.kind == "live"]
