"""The interface between the server and the builder of the engine (`runtime.build`)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from faults import FaultSpec, FaultState, Fire
from runtime.core.env import Env
from runtime.core.errors import RuntimeFailure
from runtime.core.messages import Mailbox, Sink
from runtime.guard.audit import AuditRow
from runtime.memory.spans.usage import MemoryFigures
from runtime.stats import EngineStats


class Tokenizer(Protocol):
    """Text to token ids and back."""

    @property
    def vocab_size(self) -> int:
        """Ids are 0 .. vocab_size - 1."""
        ...

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Ids that end an answer."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a plain prompt, with whatever the model wants in front of it."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Text without special tokens. Bytes that are not UTF-8 become U+FFFD, never an error."""
        ...

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of a conversation (`role`, `content`) that ends where the assistant shall speak."""
        ...


class RuntimeHandle(Protocol):
    """An engine that is ready to be started, with what the server must know about it.

    `audit`, `drain` and `measure_memory` belong to the engine's thread: the server posts them as a Call. The rest is
    for any thread.
    """

    @property
    def env(self) -> Env:
        """Clock, faults and marks."""
        ...

    @property
    def mailbox(self) -> Mailbox:
        """The engine's bounded inbox."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        ...

    @property
    def model(self) -> str:
        """The name that clients use."""
        ...

    @property
    def context_tokens(self) -> int:
        """Prompt and answer together may not be longer."""
        ...

    @property
    def info(self) -> Mapping[str, object]:
        """For /admin/info: weights_digest, kv_blocks, block_tokens, torch_threads, capabilities, versions."""
        ...

    @property
    def status(self) -> EngineStats:
        """The engine's latest snapshot."""
        ...

    @property
    def fatal(self) -> RuntimeFailure | None:
        """Why nothing can be served any more; also set when the engine's thread died of something uncaught."""
        ...

    def start(self, sink: Sink) -> None:
        """Start the engine's thread, which ends with the process at the latest."""
        ...

    @property
    def memory(self) -> MemoryFigures:
        """Figures that are at most a second old."""
        ...

    def measure_memory(self) -> MemoryFigures:
        """The same figures, now."""
        ...

    def audit(self, scope: str) -> Sequence[AuditRow]:
        """The reclamation audit; `scope` is live, quiesce or drain."""
        ...

    def drain(self) -> None:
        """Take nothing new from now on."""
        ...

    def close(self) -> None:
        """Ask the engine's thread to end. Never waits for a hung launch."""
        ...


class EventSink(Protocol):
    """The receiver of fault evidence; `journal.Journal` writes both kinds down, and raises when it can't."""

    def fire(self, fire: Fire) -> None:
        """`on_fire` of the injector."""
        ...

    def fault(self, state: FaultState) -> None:
        """`on_state` of the injector."""
        ...


class Build(Protocol):
    """Makes the engine from the `engine` table of the config; wires `witness` to the injector."""

    def __call__(self, engine: Mapping[str, object], witness: EventSink, armed: Sequence[FaultSpec]) -> RuntimeHandle:
        """`armed` are faults that must be there while it is built.

        Errors: ValueError saying what in `engine` is wrong; the process then ends with code 4.
        """
        ...
