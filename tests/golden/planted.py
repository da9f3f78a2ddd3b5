"""Bugs that every process of the runtime has alike, so that no second run of its own code could tell them.

Each models a class of the field: a weight under the wrong name, a key of the config that is not read, an edge that is
off by one. `PLANTED` names the function that plants it with a `pytest.MonkeyPatch`.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from runtime.models import decoder, loader, prepare, rope
from runtime.models.config import DecoderConfig
from tests.planted.site.sitecustomize import bug_of


def swapped_projections(patch: pytest.MonkeyPatch) -> None:
    """Gate and up are loaded into each other's place, as the live trial plants it."""
    patch.setattr(loader, "blank", loader.blank)  # so that it is taken out again
    bug_of("swapped_projections").plant(loader)


def wrong_theta(patch: pytest.MonkeyPatch) -> None:
    """`rope_theta` of the config is not read: 500,000 is taken."""
    patch.setattr(
        rope,
        "unscaled_frequencies",
        lambda config: 500_000.0 ** -(torch.arange(0, config.head_dim, 2) / config.head_dim),
    )


def wrong_epsilon(patch: pytest.MonkeyPatch) -> None:
    """`rms_norm_eps` of the config is not read: the default of the config class is taken."""
    read = decoder.Decoder.__init__

    def init(self: Any, config: DecoderConfig, *more: Any, **options: Any) -> None:
        read(self, config.model_copy(update={"norm_epsilon": 1e-6}), *more, **options)

    patch.setattr(decoder.Decoder, "__init__", init)


def wrong_chunk_edge(patch: pytest.MonkeyPatch) -> None:
    """In a chunk, tokens behind the edge of a tile do not see the last token before it."""
    chunk = prepare._chunk

    def cut(work: Any, row: int, *more: Any) -> prepare.Chunk:
        made = chunk(work, row, *more)
        context = int(work.context_lens[row])
        begin = context - (made.last - made.first)
        if made.mask is not None:
            for edge in range(prepare.TILE, context, prepare.TILE):
                made.mask[max(0, edge - begin) :, edge - 1] = -torch.inf
        return made

    patch.setattr(prepare, "_chunk", cut)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    each.__name__: each for each in (swapped_projections, wrong_theta, wrong_epsilon, wrong_chunk_edge)
}
