"""The cost table of a virtual run, as it was asked for: found, read and tried before anything is started.

--costs cpu-default     a table of ours
--costs here.json       a file that `seatrial calibrate --out here.json` made
"""

from importlib.resources import files
from pathlib import Path

from harness.exits import Refusal
from runtime.device.costs import DEFAULT, CostTable, read_table

BROKEN = (ValueError, TypeError, AttributeError, LookupError, AssertionError)
"""The errors that a table with invalid values raises when it is read or used."""


def cost_table(asked: str | None, drive: str) -> CostTable | None:
    """None for a live run. Raises Refusal with one line for a table that is none, and for one that nobody would use."""
    if drive != "virtual":
        if asked is not None:
            raise Refusal("--costs: only a virtual run has a cost table; add --virtual, or leave it out")
        return None
    given = DEFAULT if asked is None else asked
    if asked is not None and not asked.endswith(".json") and asked not in ours():
        file = Path(asked).is_file()
        cure = (
            "the name of a file has to end in .json" if file else f"ours are {', '.join(ours())}, a file ends in .json"
        )
        raise Refusal(f"--costs {asked}: no table of this name; {cure}")
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


def ours() -> list[str]:
    """Names of the tables that come with seatrial."""
    folder = files("runtime.device") / "tables"
    return sorted(each.name.removesuffix(".json") for each in folder.iterdir() if each.name.endswith(".json"))
