"""What the values of the captured graph are in the ONNX graph: tensors, constants, sizes, arguments of translations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torch_sizes
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.translate.weight_views import View, WeightViews

__all__ = ["Values"]

_SMALL = 4096
"""Constants of at most this many elements are numbers of the graph; larger ones are weights with a name."""

_PLAIN = frozenset({bool, int, float, str})
"""Types of arguments that translations take as they are."""


class Values:
    """Converts what the captured graph holds into values of the ONNX graph.

    Attributes:
        builder: What nodes and constants are built with.
        weight_names: The names of parameters, buffers and constants in the model, by the identity of the tensor.
        weight_views: Finds the constants that are these in another layout.
        literals: The identities of tensors that the model's code spells out, and of what is computed from them alone.
    """

    def __init__(self, builder: Builder, dim_names: Mapping[str, str]) -> None:
        self.builder = builder
        self.weight_names: dict[int, str] = {}
        self.weight_views = WeightViews()
        self.literals: set[int] = set()
        self._initializers: dict[int, tuple[torch.Tensor, Tensor]] = {}
        self._dim_names = dict(dim_names)
        self._symbol = re.compile("|".join(rf"\b{name}\b" for name in dim_names if name.isidentifier()) or r"(?!)")

    def for_symbolic(self, value: Any) -> Any:
        """A tensor as a value of the graph, unless the model's code spells it out: symbolic functions may read that."""
        return self.as_tensor(value) if isinstance(value, torch.Tensor) and id(value) not in self.literals else value

    def as_argument(self, value: Any, promoted: torch.dtype | None) -> Any:
        """An argument in the form that translations take it."""
        if value is None or type(value) in _PLAIN:
            return value
        if isinstance(value, torch.Tensor):
            value = self.as_tensor(value)
        if isinstance(value, Tensor):
            if promoted is None or not isinstance(value.type, ir.TensorType):
                return value
            converted = self.builder.emit("Cast", (value,), {"to": onnx_dtype(promoted)})
            converted.shape = value.shape
            return converted
        if isinstance(value, (list, tuple)):
            return [self.as_argument(item, promoted) for item in value]
        if isinstance(value, torch.dtype):
            return int(onnx_dtype(value))
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return str(value)
        return value

    def as_pair(self, value: Tensor, dtype: torch.dtype, is_pair: bool) -> Tensor:
        """A value in a complex dtype: real and imaginary part in a trailing dimension of 2."""
        shape = list(value.shape) if value.shape is not None else []
        value = self.builder.emit("Cast", (value,), {"to": onnx_dtype(dtype.to_real())})
        if not is_pair:
            column = self.builder.emit("Unsqueeze", (value, [-1]))
            value = self.builder.emit("Pad", (column, [0] * (2 * len(shape) + 1) + [1]))
            shape.append(2)
        value.shape = ir.Shape(shape)
        return value

    def as_operand(self, value: Any) -> Any:
        """An argument of a higher-order operator: tensors as values of the graph, graphs as they are."""
        if isinstance(value, (list, tuple)):
            return [self.as_operand(item) for item in value]
        if isinstance(value, torch.Tensor) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            return self.as_tensor(value)
        return value

    def as_tensor(self, value: Any) -> Tensor:
        """A value of the graph; constants become initializers the first time that they are asked for."""
        if isinstance(value, ir.Value):
            return value  # type: ignore[return-value]
        if not isinstance(value, torch.Tensor):
            return self.builder.constant(value)
        known = self._initializers.get(id(value))
        if known is None:
            view = self.weight_views.find(value) if id(value) not in self.weight_names else None
            if view is not None:
                # Not kept for later: the node may be in a branch.
                return self._laid_out(view, value)
            known = value, self.initializer(value)
            self._initializers[id(value)] = known
        return known[1]

    def _laid_out(self, view: View, tensor: torch.Tensor) -> Tensor:
        """A weight in another layout, by a node: how it is stored is decided when all that read it are known."""
        weight = self.as_tensor(view.weight)
        if view.order is not None:
            result = self.builder.emit("Transpose", (weight,), {"perm": view.order})
        else:
            result = self.builder.emit("Reshape", (weight, list(tensor.shape)))
        result.shape = ir.Shape(tensor.shape)
        return result

    def initializer(self, tensor: torch.Tensor) -> Tensor:
        name = self.weight_names.get(id(tensor))
        data = TorchTensor(tensor, name=name)
        if name is None and tensor.numel() <= _SMALL and not tensor.is_complex() and tensor.dtype != torch.bfloat16:
            return self.builder.constant(data.numpy(), data.dtype)
        return self.builder.initializer(name or f"{self.builder.prefix}/constant".lstrip("/"), data)

    def described(self, value: Any) -> tuple[ir.DataType | None, list[int | str] | None]:
        """The ONNX type and shape of a value, from what torch says of it."""
        if isinstance(value, torch.Tensor):
            shape = [self.dim(size) for size in value.shape]
            if value.is_complex():
                return onnx_dtype(value.dtype.to_real()), [*shape, 2]
            return onnx_dtype(value.dtype), shape
        if isinstance(value, (torch.SymBool, bool)):
            return ir.DataType.BOOL, []
        if isinstance(value, (torch.SymInt, int)):
            return ir.DataType.INT64, []
        if isinstance(value, (torch.SymFloat, float)):
            return None, []
        return None, None

    def dim(self, size: Any) -> int | str:
        size = torch_sizes.known_size(size)
        if isinstance(size, int):
            return size
        text = str(size)
        return self._dim_names.get(text) or self._symbol.sub(lambda found: self._dim_names[found[0]], text)
