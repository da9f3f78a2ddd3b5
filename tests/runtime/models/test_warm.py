import torch

from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner
from runtime.models.warm import warm_up


def test_warm_up_writes_nothing_but_the_dummy_block():
    directory = default_model()
    config = read_config(directory)
    kv = PagedKv(config, 4, 16)
    warm_up(ModelRunner(Decoder(config, load_weights(directory, config)), kv), kv.dummy_block, 16)
    for tensor in (*kv.keys, *kv.values):
        assert torch.count_nonzero(tensor[: kv.dummy_block]) == 0
        assert torch.count_nonzero(tensor[kv.dummy_block]) > 0
