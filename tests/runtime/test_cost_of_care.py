"""The benchmark takes out what it says, and nothing else; else its shares would be of something else."""

from unittest import mock

import pytest

from benchmarks import cost_of_care
from runtime.contract.binder import Binder
from runtime.core.ledger import Ledger
from runtime.memory.kv.tags import TagPlane
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner

WATCHED = {"contract": (Binder, "cross"), "tags": (TagPlane, "stamp"), "ledger": (Ledger, "acquire")}


@pytest.mark.parametrize("name", cost_of_care.CONTENDERS)
def test_a_contender_lacks_its_parts_and_no_other(name: str) -> None:
    directory = default_model()
    config = read_config(directory)
    model = ModelRunner(
        Decoder(config, load_weights(directory, config)), PagedKv(config, 16, cost_of_care.BLOCK_TOKENS)
    )
    missing = cost_of_care.CONTENDERS[name]
    calls = dict.fromkeys(WATCHED, 0)
    patches = []
    for part, (owner, method) in WATCHED.items():
        plain = getattr(owner, method)

        def counted(self, *given, part=part, plain=plain, **named):  # type: ignore[no-untyped-def]
            calls[part] += part != "ledger" or given[0] == "kv"  # the device's own pools have a ledger too
            return plain(self, *given, **named)

        patches.append(mock.patch.object(owner, method, counted))
    for patch in patches:
        patch.start()
    try:
        assert cost_of_care.decode(model, 16, rows=2, steps=4, missing=missing) > 0
    finally:
        mock.patch.stopall()
    assert {part for part, count in calls.items() if count == 0} == set(missing)
