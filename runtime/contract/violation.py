"""The error of a broken contract. It holds every violation, each with graph, tensor, expected and got."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from runtime.core.errors import RuntimeFailure


class Rule(StrEnum):
    """The rule that is broken."""

    RANK = "rank"
    EXTENT = "extent"  # a dim disagrees with a number or with other tensors
    RANGE = "range"  # a dim is outside of min..max or no multiple
    DTYPE = "dtype"
    DEVICE = "device"
    LAYOUT = "layout"  # elements lie in another order, or apart
    ADDRESS = "address"  # the first byte is not aligned
    STRIDE = "stride"  # rows after the first are not aligned, though the first byte is


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. `row` is the batch row that it belongs to; None for the whole launch."""

    graph: str
    tensor: str
    rule: Rule
    expected: str
    got: str
    row: int | None = None

    def __str__(self) -> str:
        row = "" if self.row is None else f" (row {self.row})"
        return (
            f'graph "{self.graph}", tensor "{self.tensor}"{row}: {self.rule}: expected {self.expected}, got {self.got}'
        )


class ContractViolation(RuntimeFailure):
    """Inputs or outputs break the contract of their graph, whose kernels did not run. The step is prepared a second
    time; if it breaks the contract again, the requests get a 500."""

    http = 500
    code = "contract_violation"

    def __init__(self, violations: Sequence[Violation]) -> None:
        assert violations, "a contract violation names at least one violation"
        super().__init__("; ".join(map(str, violations)))
        self.violations = tuple(violations)

    @property
    def rows(self) -> tuple[int, ...] | None:
        """The rows at fault when every violation names one; None when any row of the launch may be at fault."""
        rows = {violation.row for violation in self.violations}
        return None if None in rows else tuple(sorted(row for row in rows if row is not None))
