"""The boundaries of a step: planned tensors keep their contract, and a step that breaks it is prepared once more."""

import subprocess
import sys
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.contract.binder import PlannedTensors
from runtime.contract.spec import TensorFacts
from runtime.contract.step import CHUNK, HEAD, INPUTS, LAYER, SAMPLE, ModelShape, StepContract, decode_graph
from runtime.contract.violation import ContractViolation, Rule
from runtime.core.work import padded_tables
from tests.contract.device.worlds import work
from tests.runtime.contract.stage import Stage

SHAPE = ModelShape(layers=2, hidden=24, blocks=5, block_tokens=4, tokens_max=64, samples_max=8)
counts = st.integers(1, 8)


def contract() -> tuple[StepContract[TensorFacts], Stage]:
    stage = Stage()
    return StepContract(stage.env, PlannedTensors(), SHAPE), stage


@given(counts, counts, counts)
def test_planned_tensors_of_any_size_keep_every_contract(tokens: int, rows: int, width: int) -> None:
    step, _ = contract()
    decodes = {decode_graph(mixed=mixed, by_page=True): {"used": 3} for mixed in (False, True)}
    decodes |= {decode_graph(mixed=mixed, by_page=False): {} for mixed in (False, True)}
    step.cross(INPUTS, step.planned(INPUTS, tokens=tokens, fed=tokens, samples=min(rows, tokens)))
    for graph, more in decodes.items():
        step.cross(graph, step.planned(graph, rows=rows, width=width, **more))
    step.cross(CHUNK, step.planned(CHUNK, new=tokens, width=width))
    for graph in (LAYER, HEAD, SAMPLE):
        step.cross(graph, step.planned(graph, tokens), tokens)
    step.cross(SAMPLE, step.planned(SAMPLE, rows, outputs=True), rows, outputs=True)


@pytest.mark.parametrize("graph", [LAYER, HEAD])
def test_hidden_states_of_another_number_of_tokens_are_refused(graph: str) -> None:
    step, _ = contract()
    with pytest.raises(ContractViolation) as refused:
        step.cross(graph, step.planned(graph, 3), 4)
    assert [(one.tensor, one.rule) for one in refused.value.violations] == [("hidden_states", Rule.EXTENT)]


def test_a_launch_over_its_bounds_is_refused() -> None:
    step, _ = contract()
    with pytest.raises(ContractViolation) as refused:
        step.cross(INPUTS, step.planned(INPUTS, tokens=65, fed=65, samples=9))
    assert {(one.tensor, one.rule) for one in refused.value.violations} == {
        ("input_ids", Rule.RANGE),
        ("slots", Rule.RANGE),
        ("last_tokens", Rule.RANGE),
    }


def test_a_row_whose_table_does_not_cover_its_context_is_refused_by_name() -> None:
    step, stage = contract()
    launch = work(1, [2, 1, 5])
    step.check_tables(replace(launch, block_tables=padded_tables([[0], [1], [2, 3]])))
    with pytest.raises(ContractViolation) as refused:
        step.check_tables(replace(launch, block_tables=padded_tables([[0], [], [2]])))
    assert refused.value.rows == (1, 2)
    assert "expected a table for 1 tokens, got 0" in str(refused.value)
    assert stage.env.counters.total["contract.violation"] == 1


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_step_is_prepared_once_more_and_then_refused(failures: int) -> None:
    step, stage = contract()
    runs = []

    def run() -> str:
        runs.append(None)
        if len(runs) <= failures:
            step.cross(HEAD, step.planned(HEAD, 1), 2)
        return "done"

    if failures == 2:
        with pytest.raises(ContractViolation):
            step.attempt(work(1), run)
    else:
        assert step.attempt(work(1), run) == "done"
    marks = {"contract.violation": failures, "contract.rebuilt": min(failures, 1), "contract.refused": failures // 2}
    assert dict(stage.env.counters.total) == {name: n for name, n in marks.items() if n}
    assert len(runs) == min(failures + 1, 2)


def test_the_layer_starts_without_torch() -> None:
    names = "binder step damage points spec repair validate"
    code = "import sys; " + "; ".join(f"import runtime.contract.{name}" for name in names.split())
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
