"""In decode each token is turned to the position before its own; the text stays fluent.

Models M9 (nano-vllm f5b4840). The KV of the plan is right, so the tags agree; only the numbers can tell.
"""

import dataclasses

MODULE = "runtime.models.runner"


def plant(runner):
    prepare = runner.prepare

    def _prepare(work, *rest):
        inputs = prepare(work, *rest)
        decode = work.tokens == work.rows
        return dataclasses.replace(inputs, positions=inputs.positions - 1) if decode else inputs

    runner.prepare = _prepare
