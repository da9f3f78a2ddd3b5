"""The news of a leap for clients: steps in which nothing happens but tokens, told all at once with their own stamps."""

from collections.abc import Sequence
from operator import sub

from harness.load.itl import GapHistogram
from harness.virtual.server import Line, VirtualServer
from runtime.core.work import Sampled
from runtime.server.session import Session

FAR = 1 << 60
"""More tokens than any answer has."""


class LeapNews:
    """Implements `runtime.leap.News` over the sessions of a server."""

    def __init__(self, server: VirtualServer, gaps: GapHistogram) -> None:
        self._server = server
        self._gaps = gaps

    def rooms(self, requests: Sequence[str], untold: Sequence[str], fresh: Sequence[str]) -> list[int]:
        """See News: up to the token at which the client hangs up."""
        return [self._room(self._server.admission.open.get(name), name in untold, name in fresh) for name in requests]

    def leapt(
        self, requests: Sequence[str], stamps: Sequence[int], tokens: list[list[int]], drawn: dict[int, list[Sampled]]
    ) -> None:
        """See News. The gaps between stamps are the same for all, so they are counted once for all."""
        between = list(map(sub, stamps[1:], stamps))
        sessions = self._server.admission.open
        longest: dict[int, int] = {}  # gap between the first n stamps, by n
        alike: dict[tuple[str, int | None, int], int] = {}
        for row, (name, mine) in enumerate(zip(requests, tokens, strict=True)):
            session = sessions.get(name)
            if session is None or session.gone is not None or not mine:
                continue
            client, n = session.peer.client, len(mine)
            if not client.asked.stream:
                session.told(drawn[row] if row in drawn else [Sampled(token) for token in mine])
                continue
            if not session.started:
                session.told(())
                assert not client.head(stamps[0]), f"{name} hangs up at its head"
            longest_ns = longest.get(n)
            if longest_ns is None:
                longest_ns = longest[n] = max(between[: n - 1], default=0)
            first_ns = client.chunks_of(stamps, mine, longest_ns)
            if row in drawn:
                client.logprobs += [each.logprob for each in drawn[row]]
            key = client.asked.load, first_ns, n
            alike[key] = alike.get(key, 0) + 1
        for (load, first_ns, n), clients in alike.items():
            gaps_ns = between[: n - 1]
            if first_ns is not None:
                gaps_ns.append(first_ns)
            self._gaps.add_all(load, gaps_ns, clients)

    def _room(self, session: Session[Line] | None, untold: bool, fresh: bool) -> int:
        if session is None or session.held or session.gone is not None:
            return 0
        client = session.peer.client
        asked = client.asked
        if not asked.stream:
            return FAR
        if not (session.started or untold or fresh):
            return 0
        if asked.cancel is None or asked.cancel.stage == "queued":
            return FAR
        if asked.cancel.stage != "token":
            return 0 if fresh else FAR
        return max(0, asked.cancel.chunk - client.chunks - untold)
