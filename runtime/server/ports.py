"""The interface between the server and the builder of the engine (`runtime.build`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from faults import FaultSpec, FaultState, Fire
from runtime.core.env import Env
from runtime.core.errors import RuntimeFailure
from runtime.core.messages import Mailbox, Sink
from runtime.guard.audit import AuditRow
from runtime.memory.spans.usage import MemoryFigures
from runtime.stats import EngineStats


class Tokenizer(Protocol):
    """Converts text to token ids and back."""

    @property
    def vocab_size(self) -> int:
        """Ids are 0 .. vocab_size - 1."""
        ...

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Ids that end an answer."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a plain prompt, with the special tokens that the model expects in front."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Text without special tokens. Bytes that are not UTF-8 become U+FFFD, never an error."""
        ...

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of a conversation of messages (`role`, `content`), up to where the assistant's reply begins.

        Raises InvalidRequest when the chat template refuses the conversation.
        """
        ...


class RuntimeHandle(Protocol):
    """An engine that is ready to be started, and the facts of it that the server needs.

    `audit`, `drain` and `measure_memory` run on the engine's thread: the server posts them as a Call. All else may be
    used from any thread.
    """

    env: Env
    """Clock, faults and counters."""
    mailbox: Mailbox
    """The engine's bounded inbox."""
    tokenizer: Tokenizer
    """The tokenizer of the model."""
    model: str
    """The name that clients use."""
    context_tokens: int
    """Most tokens of prompt and answer together."""
    info: Mapping[str, object]
    """Facts for /admin/info: weights_digest, kv_blocks, block_tokens, torch_threads, capabilities, versions."""

    @property
    def status(self) -> EngineStats:
        """The engine's latest snapshot."""
        ...

    @property
    def fatal(self) -> RuntimeFailure | None:
        """The error that ended the engine, also when its thread died of an uncaught exception; None while it runs."""
        ...

    def generated(self, request_id: str) -> int | None:
        """The number of tokens generated for an open request; None when the engine has no such request."""
        ...

    def start(self, sink: Sink) -> None:
        """Starts the engine's thread, which ends with the process at the latest."""
        ...

    @property
    def memory(self) -> MemoryFigures:
        """Memory figures that are at most a second old."""
        ...

    def measure_memory(self) -> MemoryFigures:
        """Measures the memory figures now."""
        ...

    def audit(self, scope: str) -> Sequence[AuditRow]:
        """The rows of the reclamation audit; `scope` is live, quiesce or drain."""
        ...

    def standstill(self, bound_ns: int) -> str | None:
        """Which requests have not moved for `bound_ns`, who waits for what, and where the engine's thread is; None when
        all move, or wait for the device or for a fault."""
        ...

    def drain(self) -> None:
        """Refuses new requests from now on."""
        ...

    def close(self) -> None:
        """Asks the engine's thread to end. It never waits for a hung launch."""
        ...


class EventSink(Protocol):
    """The receiver of fault evidence; `journal.Journal` writes both kinds, and raises OSError when it can't."""

    def fire(self, fire: Fire) -> None:
        """Called by the injector at each fire (`on_fire`)."""
        ...

    def fault(self, state: FaultState) -> None:
        """Called by the injector at each change of a fault's state (`on_state`)."""
        ...


Build = Callable[[Mapping[str, object], EventSink, Sequence[FaultSpec]], RuntimeHandle]
"""Makes the engine from the `engine` table of the config, connects the sink to the injector, and arms the faults before
it builds. Raises ValueError that names the wrong settings in `engine`; the process then ends with code 4."""
