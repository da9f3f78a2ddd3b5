"""What goes in and out of a graph, said before anything runs and held against what a device really made. No torch.

    register  spec.py, registry.py      inputs and outputs of a graph, per (group, model, version)
    infer     dims.py, unify.py         symbolic dims: one value each, from all tensors that name them
    validate  validate.py, memory.py    every rule broken, not only the first
    cache     cache.py                  a signature that changes with every field that matters
    error     violation.py              graph, tensor, expected, got
    repair    repair.py                 which tensors a copy or a cast can mend

`step.py` says where the boundaries of a step are; `binder.py` is the door that real tensors pass at each of them.
"""
