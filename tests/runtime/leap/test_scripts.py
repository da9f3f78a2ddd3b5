"""A script does to KV, tags and claims what launches do, and sees whatever is not as they left it."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from runtime.core.edge import Submit
from runtime.core.work import Sampling
from runtime.device.keyed import SAID, KeyedModel, expected
from runtime.leap.script import Script, Scripts
from runtime.memory.kv.tags import TagPlane
from runtime.scheduling.batch import Batch, Row, bind
from runtime.scheduling.request import Request

BLOCKS, SIZE, SEED = 64, 4, 3
prompts = st.lists(st.integers(0, SAID - 1), min_size=1, max_size=40).map(tuple)
outputs = st.integers(1, 30)


def request_for(prompt: tuple[int, ...], outputs: int, **more: object) -> Request:
    submit = Submit("a", prompt, outputs, Sampling(), 0, 10**12, **more)  # type: ignore[arg-type]
    return Request(submit, 0, SIZE)


def with_blocks(request: Request, plane: TagPlane, blocks: list[int]) -> None:
    request.give(blocks, plane.hand_out(blocks))


class Machine:
    """A device's side: what launches write into, and scripts over the same."""

    def __init__(self) -> None:
        self.model, self.plane = KeyedModel(BLOCKS, SIZE, SEED), TagPlane(BLOCKS, SIZE)
        self.scripts = Scripts(self.model, self.plane)

    def launch(self, request: Request, tokens: int) -> None:
        """As the engine and the simulated device do it."""
        work = bind(Batch("", (Row(request, tokens),)), 1, SIZE).work
        (sampled,) = self.model.run(work)
        self.plane.stamp(work)
        request.advance(tokens, sampled, 1)

    def scripted(self, request: Request, script: Script, tokens: int) -> None:
        """The same by the script."""
        end = request.computed + tokens
        self.plane.resum(self.scripts.write(request, script, request.computed, end))
        request.tokens += script.tokens[len(request.tokens) : end + 1]
        request.line.reach(end)
        request.computed = end


@given(prompts, outputs, st.lists(st.integers(1, 40), min_size=1), st.randoms(use_true_random=False))
def test_what_is_written_by_script_is_what_launches_write(prompt, n, parts, random):
    blocks = random.sample(range(BLOCKS), -(-(len(prompt) + n) // SIZE))
    one, other = Machine(), Machine()
    launched, scripted = request_for(prompt, n), request_for(prompt, n)
    with_blocks(launched, one.plane, blocks)
    with_blocks(scripted, other.plane, blocks)
    script = other.scripts.of(scripted)
    assert script is not None and script.tokens[len(prompt) :] == [each.token for each in expected(prompt, n, SEED)]
    for part in parts:
        most = scripted.limit - 1 - scripted.computed
        tokens = min(part, most, max(1, len(launched.tokens) - launched.computed))
        if most <= 0:
            break
        assert other.scripts.intact([scripted], [script])
        one.launch(launched, tokens)
        other.scripted(scripted, script, tokens)
        assert scripted.tokens[: scripted.computed + 1] == launched.tokens[: launched.computed + 1]
        assert other.model.slots.tolist() == one.model.slots.tolist()
        assert other.plane.slots.tolist() == one.plane.slots.tolist()
        assert other.plane._sums.tolist() == one.plane._sums.tolist()
        assert (scripted.line.lineage, list(scripted.line.sums)) == (launched.line.lineage, list(launched.line.sums))


@given(prompts, st.sampled_from(["sum", "generation", "table", "state", "tag", "token"]), st.data())
def test_whatever_is_not_as_it_was_left_is_seen(prompt, damage, data):
    machine, request = Machine(), request_for(prompt, 8)
    with_blocks(request, machine.plane, list(range(12)))
    script = machine.scripts.of(request)
    assert script is not None
    machine.scripted(request, script, len(prompt))
    assert machine.scripts.of(request) is script and machine.scripts.intact([request], [script])
    at = data.draw(st.integers(0, (len(prompt) - 1) // SIZE))
    if damage == "sum":
        machine.plane._sums[at] += np.uint64(1)
    elif damage == "generation":
        machine.plane._generations[at] += 1
    elif damage == "table":
        request.blocks[at] = 40  # in place, as one who keeps a view of a row does
    elif damage == "state":
        machine.model.slots[len(prompt) - 1] ^= np.uint64(1)
    elif damage == "tag":  # sums are kept by writes that go through the plane; a doubted request reads every slot
        machine.plane.slots[data.draw(st.integers(0, len(prompt) - 1))] ^= np.uint64(1)
        request.doubted = True
    else:
        request.tokens[-1] = SAID + (request.tokens[-1] - SAID + 1) % 95
        script.told(len(request.tokens) - 1)
        assert machine.scripts.of(request) is None
        return
    assert not machine.scripts.intact([request], [script])


@given(prompts)
def test_a_request_that_may_stop_early_or_speaks_as_the_model_does_has_no_script(prompt):
    scripts = Machine().scripts
    assert scripts.of(request_for(prompt, 3, stop_tokens=frozenset({SAID + 40}))) is None
    assert Machine().scripts.of(request_for(prompt, 3, model_key="other")) is None
    assert Machine().scripts.of(request_for((*prompt, SAID), 3)) is None
    assert Machine().scripts.of(request_for((*prompt, 1000), 3)) is None
