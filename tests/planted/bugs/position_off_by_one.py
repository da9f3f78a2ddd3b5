"""In decode each token is turned to the position before its own; the text stays fluent.

Models M9 (nano-vllm f5b4840). The KV of the plan is right, so the tags agree; only the numbers can tell.
"""

import dataclasses

MODULE = "runtime.models.paged"


def plant(paged):
    lay_out = paged.lay_out

    def _lay_out(work, *rest):
        layout = lay_out(work, *rest)
        decode = work.tokens == work.rows
        return dataclasses.replace(layout, positions=layout.positions - 1) if decode else layout

    paged.lay_out = _lay_out
