"""Typed errors of the runtime: how bad each is for the process, and what its client is told.

RuntimeFailure
|- OutOfBlocks         recoverable       429 out_of_blocks       the ladder ran out: evict, release, preempt, reject
|- Refused             recoverable       429 <its reason>        admission said no
|- MailboxFull         recoverable       429 queue_full          the engine's bounded inbox is full
|- Preempted           recoverable       429 preempted           others took its place, and it has no time to come back
|- SwapRefused         recoverable       (none)                  KV can't go to the host, or come back
|- LaunchError         recoverable       500 launch_failed       one launch failed; the step is repeated once
|- KvCorruption        after clean-up    500 kv_corruption       a KV block did not hold what its owner wrote
|- Draining            recoverable       503 draining            the server is about to stop
|- DeadlineExceeded    recoverable       504 deadline_exceeded
|- InvalidRequest      recoverable       400 <its reason>        the client's mistake
`- DeviceLost          fatal             503 engine_dead         poisoned context or a hang past `hang_fatal_s`
"""

from faults.points import Severity


class RuntimeFailure(Exception):
    """Base of all: `severity` for the process, `http` and `code` for the client."""

    severity = Severity.RECOVERABLE
    http = 500
    code = "internal_error"


class OutOfBlocks(RuntimeFailure):
    """The KV pool could not hand out the blocks asked for."""

    http = 429
    code = "out_of_blocks"


class Refused(RuntimeFailure):
    """Admission refused the request; `code` says which rule did."""

    http = 429

    def __init__(self, message: str = "admission refused the request", code: str = "refused") -> None:
        super().__init__(message)
        self.code = code


class MailboxFull(RuntimeFailure):
    """The engine's inbox is at its bound; the client should come back after `retry_after_s`."""

    http = 429
    code = "queue_full"

    def __init__(self, waiting: int, retry_after_s: int = 1) -> None:
        super().__init__(f"{waiting} requests are waiting, which is the bound; retry after {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Draining(RuntimeFailure):
    """The server lets those inside finish and takes nobody new."""

    http = 503
    code = "draining"


class Preempted(RuntimeFailure):
    """The request gave its blocks to others and could not be finished before its deadline."""

    http = 429
    code = "preempted"


class SwapRefused(RuntimeFailure):
    """There is no way to or from the host now. Never seen by a client: the KV is computed again."""

    code = "swap_refused"


class LaunchError(RuntimeFailure):
    """One launch failed on the device and left the context usable."""

    code = "launch_failed"


class KvCorruption(RuntimeFailure):
    """The tag plane disagrees with what the request wrote: stale, freed, moved, unwritten or foreign KV."""

    severity = Severity.AFTER_CLEANUP
    code = "kv_corruption"


class DeadlineExceeded(RuntimeFailure):
    """The request's deadline passed before its last token."""

    http = 504
    code = "deadline_exceeded"


class InvalidRequest(RuntimeFailure):
    """The client asked for something that can't be served; `param` names the field."""

    http = 400

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class DeviceLost(RuntimeFailure):
    """Nothing launched after this can be trusted: the process must end and be started again."""

    severity = Severity.FATAL
    http = 503
    code = "engine_dead"
