"""Two matrices of each layer are loaded into each other's place; the text stays fluent.

Models Z55 (vllm#32881: weights of one layer stay in the buffer of another, for ever). It is planted in every process of
ours: whatever computes a reference with the runtime's own loader says the same.
"""

MODULE = "runtime.models.loader"
EVERYWHERE = True


def plant(loader):
    blank = loader.blank

    def _blank(config, make):
        weights, targets = blank(config, make)
        other = {"gate_proj": "up_proj", "up_proj": "gate_proj"}
        kinds = {name: name.split(".")[-2] for name in targets if name.count(".") > 1}
        swapped = {name: targets[name.replace(kind, other[kind])] for name, kind in kinds.items() if kind in other}
        return weights, {**targets, **swapped}

    loader.blank = _blank
