"""Outputs of many steps for the clients of a virtual server, delivered at once; each token has the time of its step."""

from collections.abc import Sequence
from operator import sub

from harness.load.itl import GapHistogram
from harness.virtual.connection import VirtualConnection
from harness.virtual.server import VirtualServer
from runtime.core.work import Sampled
from runtime.server.session import Session

UNLIMITED = 1 << 60
"""More tokens than any answer has."""


class VirtualOutputs:
    """Implements `runtime.fast_forward.StepOutputs` over a server's sessions; `gaps` counts gaps between tokens."""

    def __init__(self, server: VirtualServer, gaps: GapHistogram) -> None:
        self._server = server
        self._gaps = gaps

    def steps_ahead(self, requests: Sequence[str]) -> int:
        """See StepOutputs: the number of tokens up to the one at which a client hangs up."""
        return min([_tokens_ahead(self._server.admission.open.get(name)) for name in requests])

    def tell(self, requests: Sequence[str], stamps_ns: Sequence[int], tokens: Sequence[Sequence[Sampled]]) -> None:
        """See StepOutputs. The gaps between stamps are equal for all requests, so they are computed once."""
        gaps_ns = list(map(sub, stamps_ns[1:], stamps_ns))
        longest_ns = max(gaps_ns, default=0)
        clients: dict[str, int] = {}
        """Number of streaming clients, by load."""
        for name, drawn in zip(requests, tokens, strict=True):
            session = self._server.admission.open[name]
            client = session.peer.client
            if not client.request.stream or client.outcome is not None:
                session.mark_sent(drawn)
                continue
            first_ns = client.receive_many(stamps_ns, drawn, longest_ns)
            load = client.request.load
            self._gaps.add(load, first_ns)
            clients[load] = clients.get(load, 0) + 1
        for load, n in clients.items():
            self._gaps.add_all(load, gaps_ns, n)


def _tokens_ahead(session: Session[VirtualConnection] | None) -> int:
    if session is None or session.held or session.gone is not None:
        return 0
    client = session.peer.client
    if not client.request.stream:
        return UNLIMITED
    if not session.started:
        return 0
    return UNLIMITED if client.cancel is None or client.cancel.stage != "token" else client.cancel.chunk - client.chunks
