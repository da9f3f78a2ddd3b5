"""The engine: it orders the steps, and a chain of executors runs them."""

from runtime.engine.eager import Eager
from runtime.engine.engine import Engine
from runtime.engine.executor import Chain, EngineParts, Progress, StepExecutor, eager_only

__all__ = ["Chain", "Eager", "Engine", "EngineParts", "Progress", "StepExecutor", "eager_only"]
