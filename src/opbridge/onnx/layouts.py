"""Tensors in another layout: transposed, reshaped, or one slice of them; read from the first one when they are written.

An initializer that holds a weight in another layout is named after it (`fc.weight_t` for the transposed `fc.weight`),
and says in its metadata which weight it is, and what was done to it: `opbridge.weight` is the weight's name, and
`opbridge.layout` a list of steps in JSON, as in `[["transpose", 1, 0]]`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from opbridge.onnx.torch_tensor import TorchTensor

if TYPE_CHECKING:
    import torch

__all__ = ["Layout", "laid_out", "steps_of", "weight_in_layout", "weight_name"]

_WEIGHT, _LAYOUT = "opbridge.weight", "opbridge.layout"


@dataclass(frozen=True)
class Layout:
    """What is done to a tensor of any type; no number changes.

    Attributes:
        kind: "transpose", "reshape" or "select".
        numbers: The order of the dimensions; or the shape; or a dimension and the index at which the slice is taken.
    """

    kind: str
    numbers: tuple[int, ...]

    def suffix(self) -> str:
        """What is appended to the name of a weight in this layout."""
        if self.kind == "select":
            return f"_{self.numbers[1]}"
        return "_t" if self.kind == "transpose" else "_reshaped"

    def shape(self, before: Sequence[int]) -> list[int]:
        """The shape of a tensor in this layout, from its shape before."""
        if self.kind == "transpose":
            return [before[axis] for axis in self.numbers]
        if self.kind == "reshape":
            return list(self.numbers)
        return [size for axis, size in enumerate(before) if axis != self.numbers[0]]

    def of(self, array: Any) -> Any:
        """A PyTorch tensor or NumPy array in this layout: a view of it if there is one, else a copy."""
        if self.kind == "transpose":
            return array.permute(self.numbers) if hasattr(array, "permute") else array.transpose(self.numbers)
        if self.kind == "reshape":
            return array.reshape(self.numbers)
        axis, index = self.numbers
        return array[(slice(None),) * axis + (index,)]


def laid_out(tensor: ir.TensorProtocol, layout: Layout, name: str) -> ir.TensorProtocol:
    """A tensor in another layout, without a copy of its data.

    Args:
        tensor: The tensor. It is read when the result is.
        layout: The layout.
        name: The name of the weight that it holds; that of an earlier layout is kept.
    """
    metadata = dict(tensor.metadata_props)
    metadata[_WEIGHT] = metadata.get(_WEIGHT, name)
    metadata[_LAYOUT] = json.dumps([*steps_of(tensor), [layout.kind, *layout.numbers]])
    shape = layout.shape([int(size) for size in tensor.shape])  # type: ignore[arg-type]
    if isinstance(tensor, TorchTensor) and not tensor.tensor.is_complex():
        own = tensor.tensor.detach()
        if layout.kind != "reshape" or own.is_contiguous():  # or else it would be copied here
            result = TorchTensor(layout.of(own), tensor.name, tensor.doc_string)
            result.metadata_props.update(metadata)
            return result
    return ir.LazyTensor(
        lambda: ir.Tensor(layout.of(tensor.numpy()), dtype=tensor.dtype),
        dtype=tensor.dtype,
        shape=ir.Shape(shape),
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=metadata,
    )


def weight_name(tensor: ir.TensorProtocol) -> str | None:
    """The name of the weight that a tensor holds in another layout; None where it says nothing of that."""
    return tensor.metadata_props.get(_WEIGHT)


def steps_of(tensor: ir.TensorProtocol) -> list[list[Any]]:
    """What was done to the weight that a tensor holds: `["transpose", 1, 0]` and so on.

    Raises:
        ValueError: The file says something that is no JSON.
    """
    return list(json.loads(tensor.metadata_props.get(_LAYOUT, "[]")))


def weight_in_layout(weight: torch.Tensor, tensor: ir.TensorProtocol) -> torch.Tensor | None:
    """A weight in the layout of the tensor that holds it; None where it does not have that layout."""
    try:
        for kind, *numbers in steps_of(tensor):
            layout = Layout(kind, tuple(numbers))
            if kind == "reshape" and math.prod(numbers) != weight.numel():
                return None
            weight = layout.of(weight)
    except (ValueError, TypeError, IndexError, RuntimeError):  # the file says something else
        return None
    return weight
