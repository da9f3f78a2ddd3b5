"""A contract with one of everything, facts that keep it, and a binder whose faults can be armed."""

from collections.abc import Sequence

from faults import Catalogue, Faults, FaultSpec, When, parse_do
from runtime.contract.binder import Binder, PlannedTensors
from runtime.contract.dims import Dim
from runtime.contract.memory import dense_strides
from runtime.contract.points import POINTS
from runtime.contract.spec import Contract, ContractKey, TensorFacts, TensorSpec
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from tests.runtime.fakes import SetClock

N = Dim("n", min=1, max=64)
W = Dim("w", min=1, max=32, multiple_of=2)
KEY = ContractKey("chat", "tiny", "1")
ALIGNED = 0x7F0000000000

CONTRACT = Contract(
    "attend",
    inputs=(
        TensorSpec("ids", (N,), "int64", alignment_bytes=8),
        TensorSpec("gate_up", (N, 2 * W), "float16", alignment_bytes=4),
        TensorSpec("starts", (2 * N,), "int64"),
        TensorSpec("pages", (N * W,), "int64"),
        TensorSpec("image", (N, 3, W, W), "float32"),
        TensorSpec("view", (N, 2, 16), "float16", alignment_bytes=16),
    ),
    outputs=(TensorSpec("out", (N, W), "float16"), TensorSpec("both", (2 * N,), "int64")),
    key=KEY,
)
NAMES = [spec.name for spec in CONTRACT.inputs]


def facts(contract: Contract = CONTRACT, **values: int) -> list[TensorFacts]:
    """Facts of the inputs that a device that keeps the contract makes for these dims."""
    return [_kept(spec, values) for spec in contract.inputs]


def _kept(spec: TensorSpec, values: dict[str, int]) -> TensorFacts:
    shape = tuple(one.value(values) for one in spec.extents)
    return TensorFacts(shape, dense_strides(shape), spec.dtype, spec.device, ALIGNED)


def with_one(made: Sequence[TensorFacts], name: str, /, **changes: object) -> list[TensorFacts]:
    """`made`, with fields of one tensor of CONTRACT changed."""
    return [one._replace(**changes) if of == name else one for of, one in zip(NAMES, made, strict=True)]


class Stage:
    """A binder in an Env of its own."""

    def __init__(self, entries_max: int = 1024) -> None:
        catalogue = Catalogue(POINTS)
        clock = SetClock()
        self.fires: list[str] = []
        self.faults = Faults(catalogue, clock.now_ns, lambda fire: self.fires.append(fire.point), lambda state: None)
        self.env = Env(clock, 0, self.faults, Ledger())
        self.binder = Binder[TensorFacts](self.env, PlannedTensors(), entries_max)

    def cross(self, made: Sequence[TensorFacts], contract: Contract = CONTRACT) -> tuple[TensorFacts, ...]:
        """Pass tensors that are only planned."""
        return self.binder.cross(contract, tuple(made))

    def arm(self, do: str, seed: int = 0, **when: object) -> None:
        self.faults.arm([FaultSpec(id="f", n=0, do=parse_do(do), when=When(**when), seed=seed)])
