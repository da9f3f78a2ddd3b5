"""Makes a function of the runtime raise, as if its own code did: the frame that raises has its module and its name."""

import importlib
import itertools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a server that a bug is planted in loads no pytest
    import pytest


def raising(original: Callable[..., Any], error: BaseException, after: int) -> Callable[..., Any]:
    """Return `original`, whose calls raise `error` from number `after` on."""
    calls = itertools.count()

    def planted(*args: Any, **given: Any) -> Any:
        if next(calls) >= after:
            raise type(error)(*error.args)  # a new one each time: a traceback grows with each raise
        return original(*args, **given)

    name = original.__qualname__
    code = planted.__code__.replace(co_name=name.rpartition(".")[2], co_qualname=name)
    defined_in = vars(importlib.import_module(original.__module__))
    return types.FunctionType(code, defined_in, code.co_name, None, planted.__closure__)


def raise_in(patch: "pytest.MonkeyPatch", module: str, name: str, error: BaseException, *, after: int = 20) -> None:
    """Plant `error` in the function `name` ("Class.method") of `module`; see `raising`."""
    owner: Any = importlib.import_module(module)
    *classes, last = name.split(".")
    for each in classes:
        owner = getattr(owner, each)
    patch.setattr(owner, last, raising(getattr(owner, last), error, after))
