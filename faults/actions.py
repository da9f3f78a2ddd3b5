"""Constructors of the actions of a point, and `carry_out` for the actions that need nothing from the layer.

    Point(..., actions=(fail("oom", OutOfBlocks, symptom="mark:kv.out_of_blocks"), delay(), hang(), drop()))

DELAY, HANG and KILL mean the same in every layer, so `carry_out` does them. DROP, CORRUPT, LIE and CUT depend on the
point, so the code that crosses it does them.
"""

import os
import signal
from collections.abc import Callable

from faults.effects import Effect
from faults.points import Action, Kind, Severity


def carry_out(effect: Effect | None, kill: Callable[[], None] | None = None) -> Effect | None:
    """Carry out DELAY, HANG and KILL and return None; return any other effect for the caller to carry out.

    It blocks the calling thread. An event loop and a virtual device use `effect.then` instead.
    """
    if effect is None:
        return None
    if effect.kind in (Kind.DELAY, Kind.HANG):
        effect.wait()
        return None
    if effect.kind is Kind.KILL:
        (kill or kill_this_process)()
        return None
    return effect


def fail(
    name: str,
    error: type[Exception],
    *,
    symptom: str = "",
    severity: Severity = Severity.RECOVERABLE,
    placements: tuple[str, ...] = ("before",),
) -> Action:
    """Raise the point's own error type, so that the code that handles it in production handles it here."""
    return Action(name, Kind.RAISE, error=error, severity=severity, placements=placements, symptom=symptom)


def delay(name: str = "delay", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """Do the work after the given duration."""
    return Action(name, Kind.DELAY, "duration", placements=placements, symptom=symptom)


def hang(name: str = "hang", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """Block until healed, or for the given duration if that is shorter."""
    return Action(name, Kind.HANG, "duration?", placements=placements, symptom=symptom)


def drop(name: str = "drop", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """Leave the work undone without an error."""
    return Action(name, Kind.DROP, placements=placements, symptom=symptom)


def corrupt(
    *words: str,
    name: str = "corrupt",
    symptom: str = "",
    severity: Severity = Severity.RECOVERABLE,
    placements: tuple[str, ...] = ("before",),
) -> Action:
    """Damage the data as the argument says. `words` lists the permitted arguments, such as "nan" or "shape"."""
    return Action(name, Kind.CORRUPT, "word", severity=severity, placements=placements, symptom=symptom, words=words)


def lie(
    name: str = "lie", *, argument: str = "number", symptom: str = "", placements: tuple[str, ...] = ("before",)
) -> Action:
    """Return a false value. The point defines the meaning of the argument."""
    return Action(name, Kind.LIE, argument, placements=placements, symptom=symptom)


def kill(name: str = "kill", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """End this process as kill -9 does, without clean-up."""
    return Action(name, Kind.KILL, severity=Severity.FATAL, placements=placements, symptom=symptom)


def cut(name: str = "cut", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """End the stream or connection in the middle, without a final event."""
    return Action(name, Kind.CUT, placements=placements, symptom=symptom)


def kill_this_process() -> None:
    """Send SIGKILL to this process. No atexit, finally or flush runs."""
    os.kill(os.getpid(), signal.SIGKILL)


def flip_bit(buffer: bytearray | memoryview, effect: Effect) -> int:
    """Flip one bit of a writable byte buffer and return its number. The effect draws the bit."""
    bit = effect.pick(8 * len(buffer), "flip_bit")
    buffer[bit // 8] ^= 1 << bit % 8
    return bit
