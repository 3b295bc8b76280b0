"""`len(x)` of a tensor with a dynamic first dimension stays dynamic, where Python's own `len` fixes it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

__all__ = ["symbolic_lengths"]

# Python's `len` returns an int, so that torch has to fix the size. These packages do not ask for a model's sizes by it.
_OTHERS = frozenset({"torch", "opbridge", "builtins", "numpy", "sympy", "onnx", "onnx_ir", "onnxscript", "onnxruntime"})


@contextlib.contextmanager
def symbolic_lengths(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, `len` in the packages of a model gives the symbolic size of a tensor's first dimension.

    Args:
        module: The model; the packages that its submodules are defined in are those that are meant.
    """
    packages = {type(each).__module__.partition(".")[0] for each in module.modules()} - _OTHERS
    changed: list[dict[str, Any]] = []
    for name, loaded in list(sys.modules.items()):
        if name.partition(".")[0] in packages and isinstance(loaded, ModuleType) and "len" not in vars(loaded):
            changed.append(vars(loaded))
            vars(loaded)["len"] = _len
    try:
        yield
    finally:
        for names in changed:
            del names["len"]


def _len(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dim():
        return value.shape[0]
    return len(value)
