"""The built-in kernels in PyTorch: opbridge_ops."""

from __future__ import annotations

import functools

from opbridge.kernels.builtin import gradients
from opbridge.kernels.load import Operators, load
from opbridge.kernels.shipped import shipped

__all__ = ["load_builtin"]


@functools.cache
def load_builtin() -> Operators:
    """The built-in operators, with their gradients, as attributes and in `torch.ops.opbridge_ops`.

    Raises:
        BuildError: there is neither a library that came with the wheel nor a compiler to build one.
    """
    operators = load(shipped("_builtin"))
    gradients.register(operators)
    return operators
