"""The injector against a model that keeps the whole past of each fault and works every answer out of it anew."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from faults import Effect, FaultSpec, Scope
from faults.draw import draw
from tests.faults.stage import LAUNCH, SECOND_NS, STREAM, TAKE, Stage, spec
from tests.steps import CountedMachine, machine_settings

POINTS = {point.name: point for point in (TAKE, LAUNCH, STREAM)}
HANG_S = 4


@dataclasses.dataclass(frozen=True)
class Seen:
    """One crossing that matched a fault."""

    key: str
    size_bytes: int
    charged: bool  # it reached the space gate and did not pass
    fired: bool


@dataclasses.dataclass
class Past:
    spec: FaultSpec
    seen: list[Seen] = dataclasses.field(default_factory=list)
    first_ns: int | None = None
    dues_ns: list[int] = dataclasses.field(default_factory=list)  # when each hang of this fault is over
    ended_by: str | None = None
    waits: bool = False

    @property
    def fired(self) -> int:
        return sum(seen.fired for seen in self.seen)

    @property
    def spent(self) -> bool:
        times = self.spec.when.times
        return times is not None and not self.spec.persist and self.fired == times

    def can_fire(self) -> bool:
        return not self.waits and self.ended_by is None and not self.spent

    def end_ns(self) -> tuple[int, str] | None:
        if self.first_ns is None:
            return None
        ends = [(self.first_ns + int(self.spec.max_lifetime_s * SECOND_NS), "ttl")]
        if self.spec.when.for_s:
            ends.append((self.first_ns + int(self.spec.when.for_s * SECOND_NS), "for"))
        return min(ends)

    def for_is_over(self, now_ns: int) -> bool:
        for_s = self.spec.when.for_s
        return self.first_ns is not None and for_s is not None and now_ns >= self.first_ns + int(for_s * SECOND_NS)

    def see(self, key: str, size_bytes: int, taken: bool) -> bool:
        """Whether this matching crossing fires; `taken`: another fault has it already."""
        when = self.spec.when
        of_key = [seen for seen in self.seen if seen.key == key]
        hit = len(of_key) + 1
        opens = range(when.skip + 1, hit + 1, when.interval)
        fires = charged = False
        if not taken:
            if self.spec.persist and self.fired:
                fires = True
            elif hit in opens:
                used_bytes = sum(seen.size_bytes for seen in of_key if seen.charged)
                charged = when.space_bytes > 0 and used_bytes + size_bytes <= when.space_bytes
                fires = not charged and (
                    when.probability == 1
                    or draw(self.spec.seed, self.spec.id, self.spec.n, key, hit) < when.probability
                )
        self.seen.append(Seen(key, size_bytes, charged, fires))
        return fires

    def state(self) -> str:
        if self.waits:
            return "setup"
        if self.ended_by:
            return "healed"
        if self.spent:
            return "healing" if self.dues_ns else "healed"
        return "fired" if self.fired else "armed"


class FaultsAgainstTheirPast(CountedMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.pasts: dict[str, Past] = {}
        self.fires: list[tuple[str, str, int]] = []  # fault, key, hit
        self.hangs: list[tuple[Past, Effect]] = []

    @rule(
        do=st.sampled_from(["kv.take: oom", "kv.take: drop", "device.launch: error", f"device.launch: hang {HANG_S}s"]),
        skip=st.integers(0, 3),
        times=st.sampled_from([None, 1, 2, 5]),
        interval=st.integers(1, 3),
        probability=st.sampled_from([1.0, 1.0, 0.4]),
        space_bytes=st.sampled_from([0, 0, 20]),
        for_s=st.sampled_from([None, 5.0]),
        ttl_s=st.sampled_from([None, 7.0]),
        group=st.sampled_from([None, None, "chat"]),
        after_place=st.booleans(),
        persist=st.booleans(),
        seed=st.integers(0, 9),
        behind=st.none() | st.integers(0, 20),
    )
    def arm(
        self, do: str, group: str | None, after_place: bool, ttl_s: float | None, behind: int | None, **fields: Any
    ) -> None:
        name = f"f{len(self.pasts)}"
        place = "after" if after_place and do.startswith("kv") else "before"
        after = f"f{behind % len(self.pasts)}.healed" if behind is not None and self.pasts else None
        made = spec(do, id=name, place=place, scope=Scope(group=group), ttl_s=ttl_s, after=after, **fields)
        self.stage.faults.arm([made])
        self.pasts[name] = Past(made, waits=after is not None)
        self._let_in()

    @precondition(lambda self: self.pasts)
    @rule(
        which=st.integers(0, 20),
        keys=st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=5),
        size_bytes=st.sampled_from([0, 8, 20]),
        groups=st.sampled_from([None, None, "chat", "batch"]),
        elsewhere=st.sampled_from([None, None, None, *sorted(POINTS)]),
    )
    def cross_where_a_fault_is(
        self, which: int, keys: list[str], size_bytes: int, groups: str | None, elsewhere: str | None
    ) -> None:
        """Where points and places are drawn at random they seldom meet what is armed."""
        able = [past for past in self.pasts.values() if past.can_fire()] or list(self.pasts.values())
        aim = able[which % len(able)].spec
        self.cross(elsewhere or aim.do.point, keys, size_bytes, groups or aim.scope.group, aim.place)

    def cross(self, point: str, keys: list[str], size_bytes: int, group: str | None, place: str) -> None:
        for key in keys:
            wanted = self._model_cross(point, key, size_bytes, group, place)
            result = self.stage.cross(POINTS[point], key=key, size_bytes=size_bytes, group=group, place=place)
            if wanted is None:
                assert result is None
                continue
            action = wanted.spec.do.action
            errors = {"oom": "OutOfBlocks", "error": "LaunchError"}
            if action in errors:
                assert result == errors[action]
            else:
                assert isinstance(result, Effect)
                assert (result.spec.id, result.kind.value) == (wanted.spec.id, action)
                if action == "hang":
                    assert result.due_ns == wanted.dues_ns[-1]
                    self.hangs.append((wanted, result))

    @precondition(lambda self: self.pasts)
    @rule(which=st.integers(0, 20), open_ones=st.booleans())
    def heal(self, which: int, open_ones: bool) -> None:
        names = [name for name, past in self.pasts.items() if not open_ones or past.state() != "healed"]
        name = names[which % len(names)] if names else "f0"
        past = self.pasts[name]
        open_before = past.state() != "healed"
        assert self.stage.faults.heal(name, "harness") == int(open_before)
        if open_before:
            self._end(past, "harness")
        self._let_in()

    @rule(seconds=st.sampled_from([0, 1, 3, 8]))
    def go_and_tick(self, seconds: int) -> None:
        self.stage.tick(after_s=seconds)
        self._run_out(self.pasts.values())
        for past in self.pasts.values():
            past.dues_ns = [due_ns for due_ns in past.dues_ns if due_ns > self.stage.clock.now_ns]
        self._let_in()

    @precondition(lambda self: self.hangs)
    @rule()
    def wait_for_the_oldest_hang(self) -> None:
        past, effect = self.hangs.pop(0)
        before_ns = self.stage.clock.now_ns
        effect.wait()
        lost_ns = self.stage.clock.now_ns - before_ns
        assert lost_ns <= HANG_S * SECOND_NS
        if effect.due_ns in past.dues_ns:
            past.dues_ns.remove(effect.due_ns)
        self._let_in()

    @precondition(lambda self: len(self.pasts) > 4)
    @rule()
    def clean(self) -> None:
        self.stage.faults.clean()
        self.pasts.clear()
        self.hangs.clear()

    @invariant()
    def the_states_are_those_of_the_model(self) -> None:
        states = {state.id: state for state in self.stage.faults.states()}
        assert list(states) == list(self.pasts)
        for name, past in self.pasts.items():
            state = states[name]
            assert (name, state.state) == (name, past.state())
            assert (state.hits, state.fired, state.first_ns) == (len(past.seen), past.fired, past.first_ns)
            if state.state == "healed":
                assert state.healed_by == (past.ended_by or "times")
        assert self.stage.faults.armed == any(past.state() != "healed" for past in self.pasts.values())

    @invariant()
    def what_was_told_is_what_happened(self) -> None:
        assert [(fire.fault, fire.hit) for fire in self.stage.fires] == [(fault, hit) for fault, _, hit in self.fires]
        last = {state.id: state for state in self.stage.told}
        for state in self.stage.faults.states():
            assert last[state.id].state == state.state

    @invariant()
    def nothing_hangs_on_a_fault_that_was_healed_by_hand_or_time(self) -> None:
        assert all(effect.released for past, effect in self.hangs if past.ended_by)

    def _model_cross(self, point: str, key: str, size_bytes: int, group: str | None, place: str) -> Past | None:
        here = [past for past in self.pasts.values() if past.spec.do.point == point and past.can_fire()]
        winner: Past | None = None
        for past in here:
            if self._run_out([past]):
                self._let_in()
                continue
            wanted_group = past.spec.scope.group
            if past.spec.place != place or wanted_group not in (None, group):
                continue
            if past.see(key, size_bytes, taken=winner is not None):
                winner = past
                self.fires.append((past.spec.id, key, sum(seen.key == key for seen in past.seen)))
                self._open_effect(past)
        self._let_in()
        return winner

    def _open_effect(self, past: Past) -> None:
        now_ns = self.stage.clock.now_ns
        if past.first_ns is None:
            past.first_ns = now_ns
        if past.spec.do.action == "hang":
            end = past.end_ns()
            assert end is not None
            past.dues_ns.append(min(now_ns + HANG_S * SECOND_NS, end[0]))

    def _run_out(self, pasts: Iterable[Past]) -> bool:
        ran_out = False
        for past in pasts:
            end = past.end_ns()
            if past.can_fire() and end is not None and self.stage.clock.now_ns >= end[0]:
                # When both have run out by now, `for` is named: it is what was asked for, ttl is only the net.
                self._end(past, "for" if past.for_is_over(self.stage.clock.now_ns) else "ttl")
                ran_out = True
        return ran_out

    def _end(self, past: Past, by: str) -> None:
        past.ended_by, past.waits, past.dues_ns = by, False, []

    def _let_in(self) -> None:
        changed = True
        while changed:
            changed = False
            for past in self.pasts.values():
                after = past.spec.when.after
                if past.waits and after and self.pasts[after.split(".")[0]].state() == "healed":
                    past.waits, changed = False, True


TestFaultsAgainstTheirPast = FaultsAgainstTheirPast.TestCase
TestFaultsAgainstTheirPast.settings = machine_settings(runs=60, steps=40)
