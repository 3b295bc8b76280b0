"""What need not be built: nodes whose result is known while the graph is made, and nodes that do nothing.

Each rule is exact: the value that takes the node's place has the same type, shape and bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from opbridge.onnx.shapes import elements

if TYPE_CHECKING:
    from opbridge.onnx.tensor import NodeBuilder, Tensor

__all__ = ["simplify"]

_LARGEST = 4096
"""Constants of more elements than this are left to the runtime: computing with them here would copy weights."""


def simplify(
    builder: NodeBuilder, op_type: str, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any]
) -> tuple[Tensor, ...] | None:
    """The outputs of an operator that need no node, or None where one is needed."""
    rule = _RULES.get(op_type)
    if rule is not None:
        result = rule(builder, inputs, attributes)
        if result is not None:
            return (result,)
    compute = _COMPUTABLE.get(op_type)
    if compute is None or (op_type in _ONCE_BY_ATTRIBUTE and attributes):
        return None
    arrays = [None if value is None else _known(value) for value in inputs]
    if any(array is None and value is not None for array, value in zip(arrays, inputs, strict=True)):
        return None
    computed = compute(arrays, attributes)
    if computed is None or computed.size > _LARGEST:
        return None
    return (builder.constant(np.asarray(computed)),)


def _known(value: Tensor) -> np.ndarray | None:
    """The numbers of a small constant."""
    data = value.const_value
    if data is None or data.size > _LARGEST or data.dtype == ir.DataType.BFLOAT16:
        return None
    return data.numpy()


def _is_static(value: Tensor) -> bool:
    return value.shape is not None and all(isinstance(dim, int) for dim in value.shape)


def _shape(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    (value,) = inputs
    if value.shape is None:
        return None
    dims = value.shape[attributes.get("start", 0) : attributes.get("end")]
    if all(isinstance(dim, int) for dim in dims):
        return builder.constant([int(dim) for dim in dims], ir.DataType.INT64)
    return None


def _size(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    (value,) = inputs
    return builder.constant(int(np.prod(value.shape.numpy())), ir.DataType.INT64) if _is_static(value) else None


def _cast(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    return inputs[0] if inputs[0].dtype == int(attributes["to"]) else None


def _cast_like(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    return builder.emit("Cast", (inputs[0],), {"to": inputs[1].dtype}) if inputs[1].dtype is not None else None


def _identity(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    return inputs[0]


def _gather(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    """One dimension, picked out of a shape, is known where that dimension is."""
    data, index = inputs
    producer, position = data.producer(), _known(index)
    if producer is None or producer.op_type != "Shape" or position is None or position.size != 1:
        return None
    known = elements(data)
    dim = None if known is None else known[int(position.item())]
    return builder.constant(np.full(position.shape, dim, dtype=np.int64)) if isinstance(dim, int) else None


def _expand(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    value, size = inputs
    target = _known(size)
    if target is None or not _is_static(value) or len(target) > len(value.shape):
        return None
    own = value.shape.numpy()[len(value.shape) - len(target) :]
    return value if all(want in (1, have) for want, have in zip(target, own, strict=True)) else None


def _reshape(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    value, size = inputs
    target = _known(size)
    if target is None or not _is_static(value):
        return None
    known = _known(value)
    if known is not None and 0 not in target:
        return builder.constant(known.reshape(target.tolist()), value.dtype)
    return value if tuple(target) == value.shape.numpy() and 0 not in target else None


def _transpose(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    (value,) = inputs
    order = attributes.get("perm")
    if order is not None and list(order) == list(range(len(order))):
        return value
    return None


def _constant(builder: NodeBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor | None:
    for name, value in attributes.items():
        payload = value.value if isinstance(value, ir.Attr) else value
        if name == "value":
            tensor = ir.tensor(payload)
            return builder.constant(tensor.numpy(), tensor.dtype)
        if name in ("value_int", "value_ints"):
            return builder.constant(payload, ir.DataType.INT64)
        if name in ("value_float", "value_floats"):
            return builder.constant(payload, ir.DataType.FLOAT)
    return None


_Rule = Callable[["NodeBuilder", Sequence[Any], Mapping[str, Any]], "Tensor | None"]

_RULES: dict[str, _Rule] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Constant": _constant,
    "Expand": _expand,
    "Gather": _gather,
    "Identity": _identity,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Transpose": _transpose,
}


def _do_cast(arrays: list[Any], attributes: Mapping[str, Any]) -> np.ndarray | None:
    """Only casts that no runtime rounds or wraps differently, and no weight of integers as floating numbers.

    To a float8 type only exact ones: what becomes of a number beyond the range is an attribute of the node.
    """
    (array,) = arrays
    target = ir.DataType(int(attributes["to"]))
    if target == ir.DataType.BFLOAT16 or target.bitwidth < 8:
        return None
    if array.ndim > 1 and array.dtype in (np.int8, np.uint8) and target.is_floating_point():
        return None
    with np.errstate(all="ignore"):
        result = array.astype(target.numpy())
        exact = np.array_equal(result.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    return result if exact or (target.is_floating_point() and target.bitwidth > 8) else None


def _do_slice(arrays: list[Any], attributes: Mapping[str, Any]) -> np.ndarray:
    data, starts, ends = arrays[:3]
    axes = arrays[3] if len(arrays) > 3 and arrays[3] is not None else range(len(starts))
    steps = arrays[4] if len(arrays) > 4 and arrays[4] is not None else [1] * len(starts)
    index: list[slice] = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        first, last, stride = int(start), int(end), int(step)
        # An end before the first element cannot be written as a slice in Python: -1 would count from the back.
        beyond = stride < 0 and last < -data.shape[int(axis)]
        index[int(axis)] = slice(first, None if beyond else last, stride)
    return data[tuple(index)]


def _do_squeeze(arrays: list[Any], attributes: Mapping[str, Any]) -> np.ndarray:
    axes = arrays[1] if len(arrays) > 1 else None
    return np.squeeze(arrays[0], None if axes is None else tuple(int(axis) for axis in axes))


def _do_unsqueeze(arrays: list[Any], attributes: Mapping[str, Any]) -> np.ndarray:
    return np.expand_dims(arrays[0], tuple(int(axis) for axis in arrays[1].ravel()))


def _integers(function: Callable[..., np.ndarray]) -> Callable[[list[Any], Mapping[str, Any]], np.ndarray | None]:
    """Arithmetic is done here on integers only; floating-point rounding is the runtime's business."""

    def compute(arrays: list[Any], attributes: Mapping[str, Any]) -> np.ndarray | None:
        if any(array.dtype.kind not in "iu" for array in arrays):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(function(*arrays))

    return compute


def _truncating_divide(left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """ONNX divides integers towards zero, numpy's floor division downwards."""
    if np.any(right == 0):
        return None
    return np.where((left < 0) ^ (right < 0), -(abs(left) // abs(right)), abs(left) // abs(right)).astype(left.dtype)


def _do_divide(arrays: list[Any], attributes: Mapping[str, Any]) -> np.ndarray | None:
    if any(array.dtype.kind not in "iu" for array in arrays):
        return None
    return _truncating_divide(*arrays)


def _do_range(arrays: list[Any], attributes: Mapping[str, Any]) -> np.ndarray | None:
    start, limit, delta = (array.item() for array in arrays)
    if arrays[0].dtype.kind not in "iu" or delta == 0:
        return None
    return np.arange(start, limit, delta, dtype=arrays[0].dtype)


# Operators whose axes or bounds were attributes before opset 13; in that form they are left to the runtime.
_ONCE_BY_ATTRIBUTE = frozenset({"Slice", "Squeeze", "Unsqueeze"})

_COMPUTABLE: dict[str, Callable[[list[Any], Mapping[str, Any]], np.ndarray | None]] = {
    "Add": _integers(np.add),
    "Cast": _do_cast,
    "Concat": lambda arrays, attributes: np.concatenate(arrays, axis=attributes["axis"]),
    "Div": _do_divide,
    "Equal": lambda arrays, attributes: np.equal(*arrays),
    "Gather": lambda arrays, attributes: np.take(arrays[0], arrays[1], axis=attributes.get("axis", 0)),
    "Greater": lambda arrays, attributes: np.greater(*arrays),
    "Less": lambda arrays, attributes: np.less(*arrays),
    "Max": _integers(lambda *arrays: functools.reduce(np.maximum, arrays)),
    "Min": _integers(lambda *arrays: functools.reduce(np.minimum, arrays)),
    "Mul": _integers(np.multiply),
    "Neg": lambda arrays, attributes: -arrays[0],
    "Not": lambda arrays, attributes: np.logical_not(arrays[0]),
    "Range": _do_range,
    "Slice": _do_slice,
    "Squeeze": _do_squeeze,
    "Sub": _integers(np.subtract),
    "Unsqueeze": _do_unsqueeze,
    "Where": lambda arrays, attributes: np.where(*arrays),
}
