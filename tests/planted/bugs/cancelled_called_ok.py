"""A request that is cancelled because its client left is booked as served.

Models Z118 (vllm#55634: the abort path bypasses the statistics, the count of aborts is always 0).
"""

MODULE = "runtime.server.session"


def plant(session):
    settle = session.Session._settle

    def _settle(self, delivery):
        settle(self, session.Delivery("ok", None, "length") if delivery.outcome == "cancelled" else delivery)

    session.Session._settle = _settle
