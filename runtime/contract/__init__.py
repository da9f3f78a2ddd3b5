"""Contracts of graphs: the tensors that a graph takes and gives, and checks of real tensors against them. No torch.

    register  spec.py                   inputs and outputs of a graph, for each (group, model, version)
    infer     dims.py, unify.py         symbolic dims: one value each, from all tensors that name them
    validate  validate.py, memory.py    finds every broken rule, not only the first
    cache     cache.py                  tensors that keep it, by a signature of all fields that a check depends on
    error     violation.py              graph, tensor, expected, got
    repair    repair.py                 tensors that a copy or a cast can repair

`step.py` defines the boundaries of a step; `binder.py` checks the tensors that cross each of them.
"""
