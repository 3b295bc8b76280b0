"""squeeze in a trace, where a size that is not known decides about the rank of the result.

Each dimension that may have size 1 becomes an If. Its branch without the dimension is a Reshape: a Squeeze of a
dimension of another size, which a runtime may infer, is an error even where the branch is not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torchscript_graph
from opbridge.symbolics.arguments import Constant, Misfit, RuntimeValue

__all__ = ["depends_on_sizes", "squeezed"]

_END = (1 << 63) - 1


def depends_on_sizes(operator: str, arguments: Sequence[Any]) -> bool:
    """Whether a call is a squeeze of dimensions whose sizes are not known.

    Args:
        operator: The operator with its overload.
        arguments: From `arguments.choose`.
    """
    if operator not in ("aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims"):
        return False
    x = arguments[0]
    if not isinstance(x, RuntimeValue) or x.rank == 0:
        return False
    return x.sizes is None or any(x.sizes[axis] is None for axis in _axes(*arguments))


def squeezed(g: Any, x: RuntimeValue, dims: Any = None) -> Any:
    """Builds the nodes.

    Args:
        g: The `g` of the symbolic function.
        x: What is squeezed.
        dims: The dimension, or several; all by default.

    Raises:
        Misfit: The rank or the dimensions are not known.
    """
    if dims is None:
        return g.op("Squeeze", x.value)
    value = x.value
    for axis in sorted(_axes(x, dims), reverse=True):
        value = _without(g, value, axis, x.dtype)
    return value


def _axes(x: RuntimeValue, dims: Any = None) -> list[int]:
    if x.rank is None:
        raise Misfit("the rank of an input is not known")
    if dims is None:
        return list(range(x.rank))
    return [axis % x.rank for axis in _numbers(dims)]


def _numbers(dims: Any) -> list[int]:
    if isinstance(dims, list):
        return [number for each in dims for number in _numbers(each)]
    if isinstance(dims, int):
        return [dims]
    if not isinstance(dims, Constant):
        raise Misfit("the dimensions are not known")
    return [int(number) for number in dims.tensor.reshape(-1)]


def _without(g: Any, value: Any, axis: int, dtype: torch.dtype | None) -> Any:
    """A value without a dimension, where that has size 1."""
    shape = g.op("Shape", value)
    size = g.op("Gather", shape, _constant(g, [axis]), axis_i=0)
    others = g.op("Concat", _part(g, shape, 0, axis), _part(g, shape, axis + 1, _END), axis_i=0)
    is_one = g.op("Equal", size, _constant(g, [1]))
    made, (removed, kept) = torchscript_graph.op_with_blocks(g, "onnx::If", [is_one], 1, 2, {})
    torchscript_graph.block_output(removed.block, removed.op("Reshape", value, others))
    torchscript_graph.block_output(kept.block, kept.op("Identity", value))
    if dtype is not None:
        torchscript_graph.set_dtype(made, dtype)
    return made


def _part(g: Any, shape: Any, start: int, end: int) -> Any:
    if g.opset < 10:
        return g.op("Slice", shape, axes_i=[0], starts_i=[start], ends_i=[end])
    return g.op("Slice", shape, _constant(g, [start]), _constant(g, [end]), _constant(g, [0]))


def _constant(g: Any, numbers: list[int]) -> Any:
    return g.op("Constant", value_t=torch.tensor(numbers))
