"""Constructors of the actions of a point, and `carry_out` for actions that are equal in every layer.

    Point(..., actions=(fail("oom", OutOfBlocks, symptom="mark:kv.out_of_blocks"), delay(), hang(), drop()))

These are DELAY, HANG and KILL. DROP, CORRUPT, LIE and CUT depend on the point, so its crossing code carries them out.
"""

import os
import signal

from faults.effects import Effect
from faults.points import Action, Kind, Severity


def carry_out(effect: Effect) -> None:
    """Carry out a DELAY, HANG or KILL. It blocks the calling thread; an event loop uses `effect.then` instead."""
    if effect.kind is Kind.KILL:
        kill_this_process()
    else:
        assert effect.kind in (Kind.DELAY, Kind.HANG), f"only the code that crossed the point can carry out {effect}"
        effect.wait()


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
