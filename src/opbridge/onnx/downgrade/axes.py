"""Operators that work along axes, and those that make and cut shapes.

Before opset 11 no operator counted an axis from the back; before 13, or 18, axes and lengths were attributes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.onnx.downgrade.call import ENDLESS, Call, changed
from opbridge.onnx.tensor import FLOATS, Tensor

_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
)

# Of one element these make that element.
_IDENTITIES = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})

_UNBACKED = re.compile(r"\bu\d+\b")
"""Sizes that a model counts as it runs, such as the number of rows that a mask selects."""


def _from_front(call: Call, axes: Sequence[int], rank: int | None = None) -> list[int]:
    if all(axis >= 0 for axis in axes):
        return list(axes)
    rank = call.rank(call.data) if rank is None else rank
    return [axis % max(rank, 1) for axis in axes]


@changed(11, "ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "Hardmax", "LogSoftmax", "Softmax", "Split")
def _axis_11(call: Call) -> Sequence[Tensor]:
    """The axis may be counted from the back since opset 11."""
    axis = call.attributes.get("axis")
    return call.unchanged() if axis is None else call.unchanged(axis=_from_front(call, [axis])[0])


@changed(11, "ReduceSum", "Squeeze", *_REDUCTIONS)
def _axes_11(call: Call) -> Sequence[Tensor]:
    """The axes may be counted from the back since opset 11."""
    axes = call.attributes.get("axes")
    return call.unchanged() if axes is None else call.unchanged(axes=_from_front(call, axes))


@changed(11, "Unsqueeze")
def _unsqueeze_11(call: Call) -> Sequence[Tensor]:
    """The same, among the axes of the result."""
    axes = call.attributes["axes"]
    rank = None if all(axis >= 0 for axis in axes) else call.rank(call.data) + len(axes)
    return call.unchanged(axes=_from_front(call, axes, rank))


@changed(18, *_REDUCTIONS)
@changed(13, "ReduceSum")
def _reduce(call: Call) -> Sequence[Tensor]:
    """The axes are an input since opset 18, those of ReduceSum since 13, and none may mean no reduction at all."""
    attributes = dict(call.attributes)
    noop = attributes.pop("noop_with_empty_axes", 0)
    axes = call.integers(1, "axes")
    if not axes and noop:
        if call.name not in _IDENTITIES:
            call.refuse("over no axes")
        return (call.emit("Identity", call.data),)
    return call.older(call.data, axes=axes or None, **attributes)


@changed(13, "Squeeze", "Unsqueeze")
def _squeeze_13(call: Call) -> Sequence[Tensor]:
    """The axes are an input since opset 13."""
    axes = call.integers(1, "axes")
    if axes == []:
        return (call.emit("Identity", call.data),)
    return call.older(call.data, axes=axes)


@changed(13, "Hardmax", "LogSoftmax", "Softmax")
def _softmax_13(call: Call) -> Sequence[Tensor]:
    """Before opset 13 all axes from `axis` on were one: the axis goes to the end, where that is the same."""
    axis = call.attributes.get("axis", -1)
    if axis == -1:
        return call.older(call.data, axis=-1)
    rank = call.rank(call.data)
    if axis in (-1, rank - 1):
        return call.older(call.data, axis=-1)
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    (result,) = call.older(call.emit("Transpose", call.data, perm=order), axis=rank - 1)
    return (call.emit("Transpose", result, perm=order),)


@changed(18, "Split")
def _split_18(call: Call) -> Sequence[Tensor]:
    """A number of equal parts is said since opset 18; their lengths, before."""
    axis = call.attributes.get("axis", 0)
    count = call.attributes.get("num_outputs")
    if count is None:
        return call.unchanged()
    axis = axis if axis >= 0 else axis + call.rank(call.data)
    size = call.size(call.data, axis)
    if isinstance(size, int):
        part = -(-size // count)
        lengths = [part] * (count - 1)
        return call.older(call.data, [*lengths, size - sum(lengths)], axis=axis)
    # The number of parts has to be known to Split; Slice takes what there is.
    length = call.emit("Div", call.emit("Add", size, count - 1), count)
    bounds = [0, *(call.emit("Mul", length, index) for index in range(1, count)), ENDLESS]
    return [call.emit("Slice", call.data, [start], [end], [axis]) for start, end in itertools.pairwise(bounds)]


@changed(13, "Split")
def _split_13(call: Call) -> Sequence[Tensor]:
    """The lengths are an input since opset 13."""
    return call.older(call.data, split=call.integers(1, "lengths"), **call.attributes)


@changed(11, "TopK")
def _top_k_11(call: Call) -> Sequence[Tensor]:
    """Since opset 11 the smallest can be asked for, and integers have an order too."""
    if call.data.dtype not in FLOATS:
        call.refuse("of integers")
    axis = call.attributes.get("axis", -1)
    if call.attributes.get("largest", 1):
        return call.older(call.data, call.input(1), axis=axis)
    values, indices = call.older(call.emit("Neg", call.data), call.input(1), axis=axis)
    return call.emit("Neg", values), indices


@changed(10, "TopK")
def _top_k_10(call: Call) -> Sequence[Tensor]:
    """k is an input since opset 10."""
    numbers = call.integers(1, "a k")
    assert numbers is not None
    return call.older(call.data, k=numbers[0], axis=call.attributes.get("axis", -1))


@changed(11, "Slice")
def _slice_11(call: Call) -> Sequence[Tensor]:
    """The axes may be counted from the back since opset 11."""
    axes = call.integers(3, "axes")
    if axes is None:
        return call.unchanged()
    starts, ends = call.inputs[1:3]
    return call.older(call.data, starts, ends, _from_front(call, axes), call.input(4))


@changed(10, "Slice")
def _slice_10(call: Call) -> Sequence[Tensor]:
    """Before opset 10 the bounds were attributes, and every element between them was taken."""
    starts, ends = call.integers(1, "bounds"), call.integers(2, "bounds")
    assert starts is not None and ends is not None
    axes = call.integers(3, "axes") or list(range(len(starts)))
    steps = call.integers(4, "steps") or [1] * len(starts)
    result = call.data
    plain = [place for place, step in enumerate(steps) if step == 1]
    if plain:
        bounds = {name: [each[i] for i in plain] for name, each in (("starts", starts), ("ends", ends), ("axes", axes))}
        (result,) = call.older(result, **bounds)
    sizes = call.sizes(call.data)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 1:
            continue
        size = sizes[axis] if sizes is not None else None
        if size is None:
            call.refuse("with a step along an axis of dynamic size,")
        # Beyond the first element, which -1 cannot say in Python.
        stop = None if step < 0 and end < -size else end
        result = call.emit("Gather", result, list(range(size))[start:stop:step], axis=axis)
    return (result,)


@changed(15, "Shape")
def _shape_15(call: Call) -> Sequence[Tensor]:
    """A part of the shape can be asked for since opset 15."""
    (shape,) = call.older(call.data)
    start, end = call.attributes.get("start", 0), call.attributes.get("end")
    if start == 0 and end is None:
        return (shape,)
    return (call.emit("Slice", shape, [start], [ENDLESS if end is None else end], [0]),)


@changed(14, "Reshape")
def _reshape_14(call: Call) -> Sequence[Tensor]:
    """Before opset 14 a size of 0 always meant the size that the tensor had there.

    torch.export takes it for granted that no dynamic size of an input is 0, so the sizes computed at run time are
    none either, unless one counts what it finds.
    """
    target = call.input(1)
    numbers = call.known(1)
    if not call.attributes.get("allowzero") or (numbers is not None and (numbers != 0).all()):
        return call.older(call.data, target)
    if numbers is not None or 0 in (call.sizes(call.data) or ()):
        # No elements: nothing of the tensor is left but its type.
        assert call.data.dtype is not None
        nothing = ir.tensor(np.zeros(1, call.data.dtype.numpy()), dtype=call.data.dtype)
        return (call.emit("ConstantOfShape", target, value=nothing),)
    shape = call.data.shape or ()
    if any(_UNBACKED.search(str(dim)) for dim in shape):
        call.refuse("of a tensor that may be empty")
    return call.older(call.data, target)


@changed(18, "Pad")
def _pad_18(call: Call) -> Sequence[Tensor]:
    """Some axes can be padded since opset 18; all, before."""
    axes = call.integers(3, "axes")
    data, pads, value = (*call.inputs, None)[:3]
    if axes is not None:
        rank = call.rank(call.data)
        # Where each amount stands among those given, behind a 0 for the axes that are not padded.
        places = [0] * (2 * rank)
        for index, axis in enumerate(axes):
            places[axis % rank] = 1 + index
            places[rank + axis % rank] = 1 + len(axes) + index
        pads = call.emit("Gather", call.emit("Concat", [0], pads, axis=0), places, axis=0)
    return call.older(data, pads, value, **call.attributes)


@changed(11, "Pad")
def _pad_11(call: Call) -> Sequence[Tensor]:
    """Amounts and value are inputs since opset 11, and integers are padded since."""
    if call.data.dtype not in FLOATS:
        call.refuse("of integers or booleans")
    pads = call.integers(1, "amounts")
    value = 0.0
    if call.input(2) is not None:
        known = call.known(2)
        if known is None or float(np.float32(known.item())) != float(known.item()):
            call.refuse("with a value that is not a float32 constant")
        value = float(known.item())
    return call.older(call.data, pads=pads, value=value, **call.attributes)


@changed(14, "Trilu")
def _trilu_14(call: Call) -> Sequence[Tensor]:
    """Trilu came with opset 14: a choice by the difference of column and row."""
    assert call.data.dtype is not None
    diagonal = call.input(1)
    below = 0 if diagonal is None else diagonal
    rank = call.rank(call.data)
    rows, columns = (call.emit("Range", 0, call.size(call.data, axis), 1) for axis in (rank - 2, rank - 1))
    offset = call.emit("Sub", columns, call.emit("Unsqueeze", rows, [1]))
    kept = call.emit("GreaterOrEqual" if call.attributes.get("upper", 1) else "LessOrEqual", offset, below)
    zero = call.builder.constant(0, call.data.dtype)
    return (call.emit("Where", kept, call.data, zero),)


@changed(11, "Range")
def _range_11(call: Call) -> Sequence[Tensor]:
    """Range came with opset 11: the places of as many ones."""
    start, limit, _ = call.inputs
    delta = call.known(2)
    if delta is None or call.data.dtype not in (ir.DataType.INT32, ir.DataType.INT64) or delta.item() == 0:
        call.refuse("of types other than integers, or with a computed step")
    step = int(delta.item())
    span = call.emit("Sub", limit, start)
    if step != 1:
        span = call.emit("Div", call.emit("Add", span, step - (1 if step > 0 else -1)), step)
    length = call.emit("Max", call.emit("Cast", span, to=ir.DataType.INT64), 0)
    one = ir.tensor(np.ones(1, np.int64))
    ones = call.emit("ConstantOfShape", call.emit("Reshape", length, [1]), value=one)
    counted = call.emit("Squeeze", call.emit("NonZero", ones), [0])
    steps = call.emit("Cast", counted, to=call.data.dtype)
    return (call.emit("Add", steps if step == 1 else call.emit("Mul", steps, step), start),)
