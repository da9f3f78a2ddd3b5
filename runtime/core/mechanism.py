"""The place and the mechanism of an exception of the runtime, in one line for events and judges.

    AssertionError: block 3 is published; in PagedPool.check_writes (runtime/memory/kv/paged.py:123); step 17; chat-4

A live server and a virtual run write the same line, so that judges say the same of both.
"""

import linecache
from collections.abc import Iterable, Iterator
from types import FrameType

from runtime.core.errors import RuntimeFailure
from runtime.core.owner import Owner

PACKAGES = ("assertions", "faults", "harness", "runtime", "scenarios")
CLOCK = "runtime.device.virtual_time"
"""The clock of a virtual run calls others and is called by others: a mistake that shows in it is its caller's."""
MESSAGE_CHARS_MAX = 300
REQUESTS_MAX = 4

Place = tuple[FrameType, int]
"""A frame and the number of the line that it was at."""


def of_runtime(error: BaseException) -> bool:
    """Return whether the runtime raised `error`: the innermost frame of our packages belongs to it.

    A typed failure that an armed fault raised belongs to the runtime, which must handle it.
    """
    return in_runtime(places_of(error), injected=isinstance(error, RuntimeFailure))


def in_runtime(places: Iterable[Place], *, injected: bool = False) -> bool:
    """Return whether the first of `places` in one of our packages is in the runtime; with `injected`, in one but
    `faults`."""
    for frame, _ in places:
        package = _package(frame)
        if package in PACKAGES and not (injected and package == "faults"):
            return package == "runtime"
    return False


def mechanism(error: BaseException, step: int | None = None) -> str:
    """Return the type and the message of `error`, its innermost frame in the runtime, the step and the requests."""
    return f"{_message(error)}; {where(list(places_of(error)), step)}"


def where(places: list[Place], step: int | None = None) -> str:
    """Return the first of `places` in the runtime, the step, and the requests of the first place that names some.
    `places` begin with the innermost one."""
    ours = [place for place in places if _package(place[0]) == "runtime" and module_of(place[0]) != CLOCK]
    parts = []
    if ours:
        frame, line = ours[0]
        parts.append(f"in {frame.f_code.co_qualname} ({module_of(frame).replace('.', '/')}.py:{line})")
    parts += [] if step is None else [f"step {step}"]
    if requests := next((found for frame, _ in ours if (found := _requests(frame))), []):
        parts.append(", ".join(requests[:REQUESTS_MAX]) + (" ..." if len(requests) > REQUESTS_MAX else ""))
    return "; ".join(parts) or "outside of the runtime"


def places_of(error: BaseException) -> Iterator[Place]:
    """Yield the places through which `error` came, innermost first. The clock of a virtual run is left out."""
    places, traceback = [], error.__traceback__
    while traceback is not None:
        places.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return (place for place in reversed(places) if module_of(place[0]) != CLOCK)


def places_from(frame: FrameType | None) -> Iterator[Place]:
    """Yield the places of a stack that is running, innermost first."""
    while frame is not None:
        yield frame, frame.f_lineno
        frame = frame.f_back


def module_of(frame: FrameType) -> str:
    """Return the name of the module that the code of `frame` belongs to."""
    return str(frame.f_globals.get("__name__", ""))


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if not text and (place := next(iter(places_of(error)), None)) is not None:  # a bare assert says only where
        frame, line = place
        text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
    text = text if len(text) <= MESSAGE_CHARS_MAX else text[:MESSAGE_CHARS_MAX] + "..."
    return f"{type(error).__name__}: {text}"


def _package(frame: FrameType) -> str:
    return module_of(frame).partition(".")[0]


def _requests(frame: FrameType) -> list[str]:
    """Return the requests that the local variables of `frame` are about, each once. A single one goes before many."""
    found = [names for value in frame.f_locals.values() if (names := _named(value))]
    return list(dict.fromkeys(name for names in sorted(found, key=len)[:1] for name in names))


def _named(value: object) -> list[str]:
    """Return the ids of the requests that a value of the runtime is about."""
    if isinstance(value, Owner):
        return [value.request]
    if _class_package(value) != "runtime":
        return []
    for name in ("request_id", "server_id", "request_ids", "submit", "work", "ticket", "caller", "rows", "request"):
        part = getattr(value, name, None)
        if name in ("request_id", "server_id") and isinstance(part, str):
            return [part]
        if name in ("request_ids", "rows") and isinstance(part, tuple):
            return [id_ for each in part for id_ in ([each] if isinstance(each, str) else _named(each))]
        if ids := _named(part):
            return ids
    return []


def _class_package(value: object) -> str:
    return type(value).__module__.partition(".")[0]
