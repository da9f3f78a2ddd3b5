"""Live figures of a trial in virtual time: told of each client as its request ends."""

from dataclasses import dataclass

from harness.trial.live_stats import LiveStats, RecentReply
from harness.virtual.answers import AnswerCheck
from harness.virtual.client import Client
from harness.virtual.world import World


@dataclass
class VirtualStats(LiveStats):
    """Takes each ended request once: for the figures, and to hold its answer against the one it must be."""

    world: World
    answers: AnswerCheck

    def refresh(self, now_ns: int, fault_open: bool) -> None:
        self.world.rows.flush()
        self.sensors = self.world.rows.latest
        self.forget(now_ns)

    def hear(self, client: Client) -> None:
        """A request has ended."""
        assert client.outcome is not None
        assert client.end_ns is not None
        armed = self.world.faults.armed
        self.answers.hold(client, beside_fault=armed)
        if client.asked.kind not in ("load", "probe"):
            return
        first_s = None if client.first_ns is None else (client.first_ns - client.intended_ns) / 1e9
        e2e_s = (client.end_ns - client.intended_ns) / 1e9
        self.count(RecentReply(client.end_ns, client.outcome.value, first_s, e2e_s, len(client.tokens), not armed))
