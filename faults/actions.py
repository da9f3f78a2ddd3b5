"""The ways of breaking, ready to be put into a point, and the carrying out of those that need nothing of the layer.

    Point(..., actions=(fail("oom", OutOfBlocks, symptom="mark:kv.out_of_blocks"), delay(), hang(), drop()))

DELAY, HANG and KILL mean the same everywhere, so `carry_out` does them. DROP, CORRUPT, LIE and CUT depend on what is
crossed: only the layer knows what "undone" or "untrue" is there.
"""

import os
import signal
from collections.abc import Callable

from faults.effects import Effect
from faults.points import Action, Kind, Severity


def carry_out(effect: Effect | None, kill: Callable[[], None] | None = None) -> Effect | None:
    """Wait or kill if that is what the effect says; give any other effect back, for the caller to do.

    For code that owns its thread. An event loop and a virtual device go on by `effect.then`.
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
    word: str,
    error: type[Exception],
    *,
    symptom: str = "",
    severity: Severity = Severity.RECOVERABLE,
    placements: tuple[str, ...] = ("before",),
) -> Action:
    """Raise the point's own error, never a foreign one: a wrong type would be swallowed by the wrong layer."""
    return Action(word, Kind.RAISE, error=error, severity=severity, placements=placements, symptom=symptom)


def delay(word: str = "delay", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """Late by the given duration, otherwise right."""
    return Action(word, Kind.DELAY, "duration", placements=placements, symptom=symptom)


def hang(word: str = "hang", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """Stuck until healed, or for the given duration if that is shorter."""
    return Action(word, Kind.HANG, "duration?", placements=placements, symptom=symptom)


def drop(word: str = "drop", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """Not done, and nobody is told."""
    return Action(word, Kind.DROP, placements=placements, symptom=symptom)


def corrupt(
    *words: str,
    word: str = "corrupt",
    symptom: str = "",
    severity: Severity = Severity.RECOVERABLE,
    placements: tuple[str, ...] = ("before",),
) -> Action:
    """Damage of the kind that the argument names: `corrupt("shape", "dtype", "stride")`, "nan", "bit_flip", "stale"."""
    return Action(word, Kind.CORRUPT, "word", severity=severity, placements=placements, symptom=symptom, words=words)


def lie(
    word: str = "lie", *, argument: str = "number", symptom: str = "", placements: tuple[str, ...] = ("before",)
) -> Action:
    """An untrue answer; what the argument means is the point's to say."""
    return Action(word, Kind.LIE, argument, placements=placements, symptom=symptom)


def kill(word: str = "kill", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """This process ends as by kill -9: no clean-up runs."""
    return Action(word, Kind.KILL, severity=Severity.FATAL, placements=placements, symptom=symptom)


def cut(word: str = "cut", *, symptom: str = "", placements: tuple[str, ...] = ("before",)) -> Action:
    """The stream or connection ends in the middle, without a last word."""
    return Action(word, Kind.CUT, placements=placements, symptom=symptom)


def kill_this_process() -> None:
    """No atexit, no finally, no flush: what is not on disk by now is lost, as in real life."""
    os.kill(os.getpid(), signal.SIGKILL)


def flip_bit(buffer: bytearray | memoryview, effect: Effect) -> int:
    """Flip one bit of a writable byte buffer, chosen by the effect's own draw; returns the number of the bit."""
    bit = effect.pick(8 * len(buffer), "flip_bit")
    buffer[bit // 8] ^= 1 << bit % 8
    return bit
