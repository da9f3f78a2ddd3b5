"""Typed errors of the runtime: the severity of each for the process, and the HTTP status and code for its client.

RuntimeFailure
|- OutOfBlocks         recoverable       429 out_of_blocks       the ladder ran out: evict, release, preempt, reject
|- AdmissionRefused    recoverable       429 <its reason>        admission refused the request
|- MailboxFull         recoverable       429 queue_full          the engine's bounded inbox is full
|- Preempted           recoverable       429 preempted           preempted, and unable to resume before its deadline
|- SwapRefused         recoverable       (none)                  KV can't be swapped out or in
|- LaunchError         recoverable       500 launch_failed       one launch failed; the step is repeated once
|- KvCorruption        after clean-up    500 kv_corruption       a KV block does not hold what its owner wrote
|- Draining            recoverable       503 draining            the server is about to stop
|- DeadlineExceeded    recoverable       504 deadline_exceeded
|- InvalidRequest      recoverable       400 <its reason>        the request can't be served as it is
`- DeviceLost          fatal             503 engine_dead         poisoned context or a hang past `hang_fatal_s`
"""

from faults.points import Severity


class RuntimeFailure(Exception):
    """Base class: `severity` says what the process must do; `http` and `code` go to the client."""

    severity = Severity.RECOVERABLE
    http = 500
    code = "internal_error"


class OutOfBlocks(RuntimeFailure):
    """The KV pool has fewer blocks than were asked for."""

    http = 429
    code = "out_of_blocks"


class AdmissionRefused(RuntimeFailure):
    """Admission refused the request; `code` names the rule."""

    http = 429

    def __init__(self, message: str = "admission refused the request", code: str = "refused") -> None:
        super().__init__(message)
        self.code = code


class MailboxFull(RuntimeFailure):
    """The engine's inbox is at its bound; the client should try again after `retry_after_s`."""

    http = 429
    code = "queue_full"

    def __init__(self, waiting: int, retry_after_s: int = 1) -> None:
        super().__init__(f"{waiting} requests are waiting, which is the bound; retry after {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Draining(RuntimeFailure):
    """The server finishes its open requests and admits no new ones."""

    http = 503
    code = "draining"


class Preempted(RuntimeFailure):
    """The request was preempted and can't be finished before its deadline."""

    http = 429
    code = "preempted"


class SwapRefused(RuntimeFailure):
    """KV can't be copied to or from the host now. A client never sees this error: the KV is recomputed."""

    code = "swap_refused"


class LaunchError(RuntimeFailure):
    """One launch failed on the device and left the context usable."""

    code = "launch_failed"


class KvCorruption(RuntimeFailure):
    """The tags of a block differ from those of the request's tokens: stale, freed, moved, unwritten or foreign KV."""

    severity = Severity.AFTER_CLEANUP
    code = "kv_corruption"


class DeadlineExceeded(RuntimeFailure):
    """The request's deadline passed before its last token."""

    http = 504
    code = "deadline_exceeded"


class InvalidRequest(RuntimeFailure):
    """The request is invalid; `param` names the field."""

    http = 400

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class DeviceLost(RuntimeFailure):
    """Results of later launches can't be trusted: the process must end and be restarted."""

    severity = Severity.FATAL
    http = 503
    code = "engine_dead"
