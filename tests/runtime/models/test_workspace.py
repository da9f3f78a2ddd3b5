"""The bytes of a launch: hand-placed, disjoint, the same again in a steady decode, and all given back."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from faults import Catalogue, Faults, FaultSpec, When, parse_do
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.device.torch_segments import SENTINEL, TorchSegments
from runtime.memory.assembly import PoolSizes, device_pools
from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.points import POINTS as ALLOC_POINTS
from runtime.memory.spans.span import PoolKind
from runtime.models.buffers import Buffers, step_bytes
from runtime.models.config import DecoderConfig, read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner
from runtime.models.workspace import Workspace, alone
from tests.runtime.fakes import SetClock
from tests.runtime.models.worlds import ONE_LAYER, Driver, generate

MIB = 1 << 20


class Bench:
    """A step space with faults that can be armed, and poison below."""

    def __init__(self, config: DecoderConfig = ONE_LAYER, step: int = MIB, room: int | None = None) -> None:
        catalogue = Catalogue(ALLOC_POINTS)
        clock = SetClock()
        self.faults = Faults(catalogue, clock.now_ns, lambda fire: None, lambda state: None)
        self.env = Env(clock, 0, self.faults, Ledger())
        self.segments = TorchSegments(room)
        sizes = PoolSizes(step=step, workspace=16 * MIB)
        pools = device_pools(self.env, self.segments, sizes, poison=self.segments.poison)
        self.space = Workspace(config, self.segments, pools, 8 * MIB)

    def arm(self, do: str, place: str = "before", **when: object) -> None:
        self.faults.arm([FaultSpec(id="f", n=0, do=parse_do(do), place=place, when=When(**when))])  # type: ignore[arg-type]


def own(at: Buffers) -> list[torch.Tensor]:
    """Those that share no bytes."""
    norms = (*(getattr(norm, name) for norm in (at.norm, at.last_norm) for name in ("normed", "squares", "factors")),)
    names = "hidden cosine sine fused rotated halves_swapped head_factors staged attended gate_up spread last logits"
    return [*norms, *(getattr(at, name) for name in names.split())]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 70), st.integers(0, 40)), min_size=1, max_size=6))
def test_buffers_of_a_step_are_dense_aligned_and_share_nothing(shapes: list[tuple[int, int]]):
    bench = Bench()
    for number, (tokens, sampled) in enumerate(shapes):
        at = bench.space.begin(number, tokens, sampled)
        tensors = own(at)
        for value, tensor in enumerate(tensors):
            assert tensor.is_contiguous() and tensor.data_ptr() % 64 == 0
            assert tensor.shape[0] in (tokens, sampled)
            tensor.fill_(value)
        for value, tensor in enumerate(tensors):
            assert tensor.eq(value).all(), "somebody else writes here"
        assert sum(span.bytes for span, _ in bench.space.held()) <= step_bytes(ONE_LAYER, tokens, sampled) <= MIB
        bench.space.end()
        assert not bench.space.held()
    usage = bench.space.pools[PoolKind.ACTIVATION].usage()
    assert (usage.hits, bench.segments.reserved) == (usage.allocs - 1, 1)


def test_views_share_the_bytes_that_they_are_views_of():
    at = Bench().space.begin(0, 3, 2)
    at.fused.copy_(torch.arange(3 * 80).view(3, 80))
    assert torch.equal(torch.cat((at.unrotated, at.values), 1).view(3, 80), at.fused)
    at.rotated.copy_(torch.arange(3 * 64).view(3, 8, 8))
    assert torch.equal(torch.cat((at.queries, at.keys), 1), at.rotated)
    at.gate_up.copy_(torch.arange(3 * 64).view(3, 64))
    assert torch.equal(torch.cat((at.gate, at.up), 1), at.gate_up)


def test_a_steady_decode_makes_no_view_anew_and_asks_nothing_upstream():
    space = Bench().space
    first = space.begin(0, 7, 7)
    space.end()
    again = space.begin(1, 7, 7)
    assert again is first
    space.end()


def test_views_follow_their_spans_elsewhere():
    """The bytes of a step whose reset was lost are not written to by the next of its shape."""
    bench = Bench()
    bench.arm("memory.reset: drop")
    first = bench.space.begin(0, 7, 7)
    bench.space.end()
    again = bench.space.begin(1, 7, 7)
    for value, (one, other) in enumerate(zip(own(first), own(again), strict=True)):
        one.fill_(value)
        other.fill_(-1)
    assert all(one.eq(value).all() for value, one in enumerate(own(first)))
    bench.space.end()
    with bench.space.scratch((64, 64)) as (low,):
        low.fill_(3)
        with bench.space.scratch((8, 8)), bench.space.scratch((16, 16)) as (high,):
            high.fill_(1)
    with bench.space.scratch((16, 16)) as (moved,), bench.space.scratch((64, 64)) as (low,):
        moved.fill_(1)
        low.fill_(3)
        assert moved.eq(1).all(), "it lies elsewhere than the last time"


def test_what_ended_is_poisoned_so_that_a_late_reader_shows():
    bench = Bench()
    hidden = bench.space.begin(0, 4, 1).hidden
    hidden.zero_()
    bench.space.end()
    assert hidden.view(torch.uint8).eq(SENTINEL).all()


def test_scratch_is_given_back_also_when_its_operator_fails():
    bench = Bench()
    with bench.space.scratch((3, 4), (5,)) as (first, second):
        assert (first.shape, second.shape) == ((3, 4), (5,))
        assert [request.pool for _, request in bench.space.held()] == [PoolKind.WORKSPACE]
    with pytest.raises(RuntimeError), bench.space.scratch((3, 4), (5,)) as (first, second):
        torch.mm(first, second)
    assert not bench.space.held()


def test_the_same_scratch_twice_at_once_is_our_mistake():
    space = Bench().space
    with space.scratch((3,)), pytest.raises(AssertionError, match="taken twice"), space.scratch((3,)):
        pass


def test_a_step_that_gets_only_part_of_its_bytes_gives_that_part_back():
    bench = Bench()
    for nth in range(4):
        bench.arm("memory.alloc: oom", skip=nth, times=1)
        with pytest.raises(OutOfMemory):
            bench.space.begin(nth, 5, 5)
        bench.space.end()
        assert not bench.space.held()
        bench.faults.clean()
    assert bench.env.counters.total["memory.out_of_memory"] == bench.env.counters.total["memory.reject"] == 4


@pytest.mark.parametrize("exact", [False, True])
def test_tokens_do_not_depend_on_what_the_pools_hold(exact: bool):
    """Poisoned bytes are read by nobody: the same tokens from pools that start with zeros and from poisoned ones."""
    directory = default_model()
    config = read_config(directory)
    weights = load_weights(directory, config)
    answers = []
    for space in (alone(config), Bench(config, 8 * MIB).space):
        model = ModelRunner(Decoder(config, weights, batch_invariant=exact, space=space), PagedKv(config, 16, 16))
        driver = Driver(model)
        courses = [generate(driver, [5, 6, 7] * 9, 12, chunk=10), generate(driver, [9] * 20, 5)]
        answers.append([course.tokens for course in courses])
        assert not space.held()
    assert answers[0] == answers[1]


def test_a_decode_step_after_the_first_needs_no_new_segment():
    directory = default_model()
    config = read_config(directory)
    bench = Bench(config, step_bytes(config, 64, 16))
    model = ModelRunner(Decoder(config, load_weights(directory, config), space=bench.space), PagedKv(config, 16, 16))
    driver = Driver(model)
    course = driver.start("a", [1, 2, 3])
    driver.run([(course, 3)])
    driver.run([(course, 1)])
    made = bench.segments.reserved
    for _ in range(40):
        driver.run([(course, 1)])
    assert bench.segments.reserved == made
    for kind in (PoolKind.ACTIVATION, PoolKind.WORKSPACE):
        usage = bench.space.pools[kind].usage()
        assert (usage.allocs - usage.hits, usage.failed) == (1, 0)
