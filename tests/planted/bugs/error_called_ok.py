"""A stream that ends with an error in band is booked as served.

Models Z118 (vllm#55634: the abort path bypasses the statistics): the server's own books say that all is well.
"""

MODULE = "runtime.server.session"


def plant(session):
    settle = session.Session._settle

    def _settle(self, delivery):
        if delivery.outcome == "inband_error":
            delivery = session.Delivery("ok", None, "stop")
        settle(self, delivery)

    session.Session._settle = _settle
