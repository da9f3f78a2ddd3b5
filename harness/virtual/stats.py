"""Live figures of a trial in virtual time, updated as each request ends."""

from dataclasses import dataclass

from harness.trial.live_stats import LiveStats, RecentReply
from harness.virtual.answer_check import AnswerCheck
from harness.virtual.client import Client
from harness.virtual.world import World


@dataclass
class VirtualStats(LiveStats):
    """Counts each request that has ended, and has its answer checked."""

    world: World
    answers: AnswerCheck

    def refresh(self, now_ns: int, fault_open: bool) -> None:
        self.world.rows.flush()
        self.sensors = self.world.rows.latest
        self.forget(now_ns)

    def take(self, client: Client) -> None:
        """Count a request that has ended."""
        assert client.outcome is not None
        assert client.end_ns is not None
        armed = self.world.faults.armed
        self.answers.check(client, during_fault=armed)
        if client.request.kind not in ("load", "probe"):
            return
        ttft_s = None if client.first_ns is None else (client.first_ns - client.intended_ns) / 1e9
        e2e_s = (client.end_ns - client.intended_ns) / 1e9
        self.count(RecentReply(client.end_ns, client.outcome.value, ttft_s, e2e_s, len(client.tokens), not armed))
