"""Fast-forward in virtual time: pure decode steps behind an eager one are precomputed and not run one by one."""

from runtime.fast_forward.fast_forward import CHECK_ONE_IN, FastForward
from runtime.fast_forward.outputs import StepOutputs

__all__ = ["CHECK_ONE_IN", "FastForward", "StepOutputs"]
