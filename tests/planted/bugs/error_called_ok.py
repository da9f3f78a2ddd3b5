"""A stream that ends with an error in band is booked as served.

Models Z118 (vllm#55634: the abort path bypasses the statistics): the server's own books say that all is well.
"""

MODULE = "runtime.server.reply"


def plant(reply):
    settle = reply.Reply._settle

    def _settle(self, outcome, code, finish=None):
        if outcome == "inband_error":
            outcome, code, finish = "ok", None, "stop"
        settle(self, outcome, code, finish)

    reply.Reply._settle = _settle
