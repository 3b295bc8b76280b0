"""Functions and methods as models, for entries of families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["Calling"]


class Calling(torch.nn.Module):
    """A module that calls a function with its inputs, up to four, in their order; those that are None are left out.

    The parameters of `forward` have names of their own, because torch.onnx.export gives `*inputs` no dynamic shapes.

    Args:
        function: The function. For a method of a module, a function that takes the module first.
        module: A module that the function takes as its first argument.
        **fixed: Further arguments, which are no inputs.
    """

    def __init__(self, function: Callable[..., Any], module: torch.nn.Module | None = None, **fixed: Any) -> None:
        super().__init__()
        self.module = module
        self._function = function
        self._fixed = fixed

    def forward(self, first: Any, second: Any = None, third: Any = None, fourth: Any = None) -> Any:
        given = (self.module, first, second, third, fourth)
        return self._function(*(each for each in given if each is not None), **self._fixed)
