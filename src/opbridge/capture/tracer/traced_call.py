"""The call of a model that is traced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from opbridge.capture.dynamic_shapes import Axis, Shapes

__all__ = ["TracedCall"]


@dataclass(frozen=True, eq=False)
class TracedCall:
    """The call of a model that is traced.

    Attributes:
        module: The model.
        args: Its positional inputs.
        kwargs: Its keyword inputs.
        shapes: The dynamic dimensions.
        gradients: What requires gradients where it does in the model: "", "inputs", or "inputs and parameters".
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: Shapes
    gradients: str = ""

    @property
    def has_dynamic_sizes(self) -> bool:
        """Whether a dimension of an input is dynamic."""
        return bool(self.shapes.axes)

    @property
    def parameters_require_gradients(self) -> bool:
        """Whether parameters require gradients where they do in the model."""
        return self.gradients == "inputs and parameters"

    def axes_of(self, tensor: torch.Tensor) -> dict[int, Axis]:
        """The dynamic dimensions of an input, by number."""
        return {index: axis for (owner, index), axis in self.shapes.axes.items() if owner == id(tensor)}
