"""Find, read and check the cost table of a virtual run before the run starts.

--costs cpu-default     a built-in table
--costs here.json       a file that `seatrial calibrate --out here.json` wrote
"""

from importlib.resources import files
from pathlib import Path

from harness.exits import Refusal
from runtime.device.costs import DEFAULT, CostTable, read_table

BROKEN = (ValueError, TypeError, AttributeError, LookupError, AssertionError)
"""The errors that a table with invalid values raises when it is read or used."""


def cost_table(name: str | None, drive: str) -> CostTable | None:
    """Return the table, or None for a live run. Raises Refusal for an invalid table, or a table for a live run."""
    if drive != "virtual":
        if name is not None:
            raise Refusal("--costs: only a virtual run has a cost table; add --virtual, or leave --costs out")
        return None
    given = DEFAULT if name is None else name
    if name is not None and not name.endswith(".json") and name not in builtin_tables():
        cure = "the name of a file must end in .json"
        if not Path(name).is_file():
            cure = f"built-in tables are {', '.join(builtin_tables())}; {cure}"
        raise Refusal(f"--costs {name}: no table of this name; {cure}")
    if given.endswith(".json") and not Path(given).is_file():
        raise Refusal(f"--costs {given}: no such file; make one with `seatrial calibrate --out {given}`")
    try:
        table = read_table(given)
        table.words()
        table.launch_cost_ns(table.prefill[0][0], table.decode_rows[0], table.decode_context[0])
    except BROKEN as error:
        cause = error.__cause__ or error
        why = str(cause) if isinstance(cause, ValueError | AssertionError) else f"{type(cause).__name__}: {cause}"
        remedy = f"make one with `seatrial calibrate --out {given}`"
        raise Refusal(f"--costs {given}: not a cost table ({' '.join(why.split())}); {remedy}") from None
    return table


def builtin_tables() -> list[str]:
    """Names of the tables that come with seatrial, sorted."""
    folder = files("runtime.device") / "tables"
    return sorted(each.name.removesuffix(".json") for each in folder.iterdir() if each.name.endswith(".json"))
