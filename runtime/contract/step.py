"""The contract of one launch of the engine, and the facts about a `Work` that a device reads where it lies."""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.contract.dims import Dim, Ragged, Size
from runtime.contract.spec import IOSpec, Layout, TensorFacts, TensorSpec
from runtime.core.work import Work

STEP = "step"
_ITEM_BYTES = 8
_DTYPES = {
    np.dtype(name): name
    for name in ("bool", "int8", "uint8", "int16", "float16", "int32", "float32", "int64", "uint64", "float64")
}
"""By dtype, because numpy works the name out anew at each reading."""


def step_io(tokens_max: int, rows_max: int, blocks_max: int) -> IOSpec:
    """Bounds: new tokens of a launch, its rows, and blocks in one row's table."""
    tokens = Dim("tokens", min=1, max=tokens_max)
    rows = Dim("rows", min=1, max=rows_max)
    blocks = Dim("blocks", min=1, max=blocks_max)

    def flat(name: str, size: Size) -> TensorSpec:
        return TensorSpec(name, (size,), "int64", alignment_bytes=_ITEM_BYTES)

    return IOSpec(
        STEP,
        inputs=(
            flat("token_ids", tokens),
            flat("positions", tokens),
            flat("slots", tokens),
            flat("row_starts", rows + 1),
            flat("context_lens", rows),
            TensorSpec("block_tables", (rows, Ragged(blocks)), "int64", layout=Layout.RAGGED),
        ),
        outputs=(flat("sampled", rows),),
    )


def facts_of_work(work: Work, device: str = "cpu") -> tuple[TensorFacts, ...]:
    """The inputs of `step_io` as they lie in `work`; a device that copies them elsewhere tells of its copies."""
    lengths = tuple([len(table) for table in work.block_tables])
    return (
        facts_of_array(work.token_ids, "token_ids", device),
        facts_of_array(work.positions, "positions", device),
        facts_of_array(work.slots, "slots", device),
        facts_of_array(work.row_starts, "row_starts", device),
        facts_of_array(work.context_lens, "context_lens", device),
        TensorFacts("block_tables", (len(lengths), lengths), (), "int64", device, 0),
    )


def facts_of_array(array: npt.NDArray[Any], name: str, device: str = "cpu") -> TensorFacts:
    """Facts about a numpy array. Raises ValueError for one that no tensor can be made of: strides of part elements."""
    item_bytes = array.itemsize
    if array.strides == (item_bytes,):  # nearly always
        strides: tuple[int, ...] = (1,)
    else:
        strides = tuple([stride // item_bytes for stride in array.strides])
        if any(stride % item_bytes for stride in array.strides):
            raise ValueError(f"{name}: strides of {array.strides} bytes are not whole {item_bytes} byte elements")
    dtype = _DTYPES.get(array.dtype) or array.dtype.name
    return TensorFacts(name, array.shape, strides, dtype, device, _address(array))


def _address(array: npt.NDArray[Any]) -> int:
    try:
        return ctypes.addressof(ctypes.c_byte.from_buffer(array))  # type: ignore[arg-type]  # numpy's stubs hide the buffer
    except (TypeError, ValueError):  # read-only, in pieces, or empty: five times as dear
        return array.ctypes.data
