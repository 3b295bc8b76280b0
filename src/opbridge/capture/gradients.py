"""The gradients in the attributes of a module's parameters, which a model may write to."""

from __future__ import annotations

import torch

__all__ = ["Gradients"]


class Gradients:
    """The `grad` of each of a module's parameters, as it is now.

    Args:
        module: The module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._kept = [
            (parameter, parameter.grad, None if parameter.grad is None else parameter.grad.clone())
            for parameter in module.parameters()
            if parameter.is_leaf
        ]

    def restore(self) -> None:
        """Puts the tensors and their values back."""
        for parameter, gradient, value in self._kept:
            if parameter.grad is not gradient:
                parameter.grad = gradient
            if gradient is not None and value is not None:
                with torch.no_grad():
                    gradient.copy_(value)
