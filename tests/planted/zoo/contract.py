"""Layers 1 and 10: indices, layouts, and results that go to the wrong row."""

from dataclasses import replace

import pytest

from runtime.engine.landing import Landing
from runtime.scheduling import batch
from runtime.scheduling.scheduler import Scheduler
from tests.planted.zoo.bug import Every, bug


@bug("Z05", "contract", "every row but the first starts at the wrong place", "pr-no-sharing", "kv.tags")
def rows_start_wrong(patch: pytest.MonkeyPatch) -> None:
    slots_of = batch.slots_of

    def without_rounding(tables, positions, row_starts, block_tokens):
        blocks, slots = slots_of(tables, positions, row_starts, block_tokens)
        slots[row_starts[1] :] = slots[row_starts[1] :] // block_tokens * block_tokens
        return blocks, slots

    patch.setattr(batch, "slots_of", without_rounding)


@bug("Z08", "contract", "a prompt longer than the smaller of two caps ends the scheduler", "pr-long-prompts", "caps")
def two_caps(patch: pytest.MonkeyPatch) -> None:
    begin = Scheduler._begin

    def checked(self, request, budget, rows):
        assert len(request.submit.prompt) <= 900, "caps: no bucket for this prompt"
        return begin(self, request, budget, rows)

    patch.setattr(Scheduler, "_begin", checked)


@bug("Z10", "contract", "results are given out in an order that ids no longer have", "clean", "corrupt")
def reordered_results(patch: pytest.MonkeyPatch) -> None:
    land, now = Landing.land, Every(40)

    def reordered(self, rows, result, took_ns):
        if len(result.sampled) > 1 and None not in result.sampled and now():
            result = replace(result, sampled=(*result.sampled[1:], result.sampled[0]))
        land(self, rows, result, took_ns)

    patch.setattr(Landing, "land", reordered)


@bug("Z92", "numerics", "requests answer each other's prompts after one of a batch ends", "pr-no-sharing", "kv.tags")
def wrong_row_offset(patch: pytest.MonkeyPatch) -> None:
    bind, before = batch.bind, [0]

    def merged(rows, step, *, deep=False):
        bound = bind(rows, step, deep=deep)
        fewer, before[0] = len(rows.rows) < before[0], len(rows.rows)
        if fewer and len(rows.rows) > 1 and rows.tokens == len(rows.rows):
            ids = bound.work.token_ids
            ids[:2] = ids[1::-1].copy()
        return bound

    from runtime.engine import eager

    patch.setattr(eager, "bind", merged)


@bug("Z145", "numerics", "short prompts become garbage when batched with a long one", "pr-long-prompts", "kv.tags")
def positions_of_the_longest(patch: pytest.MonkeyPatch) -> None:
    layout_of = batch.layout_of

    def by_the_longest(starts, lengths):
        row_starts, positions = layout_of(starts, lengths)
        if len(lengths) > 1 and max(lengths) > 100:
            short = min(range(len(lengths)), key=lambda row: lengths[row])
            positions[row_starts[short] : row_starts[short + 1]] += 1
        return row_starts, positions

    patch.setattr(batch, "layout_of", by_the_longest)
