"""Constants, shapes and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step, lower

_ENDLESS = (1 << 63) - 1


@lower(12, "Constant", says="the value is a tensor")
def _constant_12(step: Step) -> None:
    for name, dtype in (
        ("value_float", ir.DataType.FLOAT),
        ("value_floats", ir.DataType.FLOAT),
        ("value_int", ir.DataType.INT64),
        ("value_ints", ir.DataType.INT64),
        ("value_string", ir.DataType.STRING),
        ("value_strings", ir.DataType.STRING),
    ):
        value = step.get(name)
        if value is None:
            continue
        if dtype == ir.DataType.STRING:
            given = [value] if isinstance(value, (str, bytes)) else list(value)
            raw = [each.encode() if isinstance(each, str) else each for each in given]
            array = np.asarray(raw, object).reshape(() if name == "value_string" else (-1,))
            tensor: ir.TensorProtocol = ir.StringTensor(array, shape=ir.Shape(array.shape))
        else:
            tensor = ir.tensor(value, dtype=dtype)
        step.set(**{name: None})
        step.node.attributes["value"] = ir.AttrTensor("value", tensor)


@lower(9, "ConstantOfShape", says="expanded from one number")
def _constant_of_shape_9(step: Step) -> Sequence[ir.Value]:
    value = step.get("value")
    number = np.zeros(1, np.float32) if value is None else value.numpy()
    return [step.emit("Expand", step.number(number.reshape(()), number.dtype), step.data)]


@lower(15, "Shape", says="a part of the whole shape")
def _shape_15(step: Step) -> Sequence[ir.Value] | None:
    start, end = int(step.get("start", 0)), step.get("end")
    step.set(start=None, end=None)
    if start == 0 and end is None:
        return None
    whole = step.emit("Shape", step.data)
    return [step.sliced(whole, start, _ENDLESS if end is None else int(end), 0)]


@lower(14, "Reshape", says="without allowzero: an empty tensor may be rejected or get a different shape")
def _reshape_14(step: Step) -> Sequence[ir.Value] | None:
    """Before opset 14 a size of 0 always meant the size that the tensor had there.

    Sizes that the model computes are 0 only for tensors without elements. Those are reshaped as before where the
    places of the zeros agree; otherwise a runtime finds that the numbers of elements differ.
    """
    if not step.get("allowzero", 0):
        return None
    target, sizes = step.constant(1), step.shape(step.data)
    if (target is not None and (target == 0).any()) or 0 in (sizes or ()):
        nothing = np.zeros(1, step.dtype(step.data).numpy())
        value = ir.tensor(nothing, dtype=step.dtype(step.data))
        return [step.emit("ConstantOfShape", step.input(1), value=value)]
    step.set(allowzero=None)
    return None


@lower(27, "Range", says="computed in float32")
def _range_27(step: Step) -> Sequence[ir.Value] | None:
    dtype = step.dtype(step.data)
    if dtype not in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        step.set(stash_type=None)
        return None
    if step.get("stash_type", 1) != 1:
        step.refuse(f"with stash_type={step.get('stash_type')}")
    given = [step.emit("Cast", each, to=int(ir.DataType.FLOAT)) for each in step.node.inputs]
    return [step.emit("Cast", step.emit("Range", *given), to=int(dtype))]


@lower(15, "CastLike", says="a Cast to the type")
def _cast_like_15(step: Step) -> Sequence[ir.Value]:
    found: ir.Value = step.emit("Cast", step.data, to=int(step.dtype(step.input(1))))
    return [found]


@lower(14, "Trilu", says="composed of a mask and a choice")
def _trilu_14(step: Step) -> Sequence[ir.Value]:
    rank = step.rank()
    rows, columns = (step.size(step.data, rank - at) for at in (2, 1))
    offset = step.constant(1)
    k = step.input(1)
    upper = bool(step.get("upper", 1))
    if isinstance(rows, int) and isinstance(columns, int) and (k is None or offset is not None):
        first = 0 if offset is None else int(offset.ravel()[0])
        ones = np.ones((rows, columns), np.bool_)
        kept: ir.Value = step.number(np.triu(ones, first) if upper else np.tril(ones, first), np.bool_)
    else:
        along = [
            step.emit("Range", step.number(np.int64(0)), _scalar(step, each), step.number(np.int64(1)))
            for each in (rows, columns)
        ]
        distance = step.emit("Sub", along[1], step.unsqueezed(along[0], [1]))
        first_ = step.number(0) if k is None else k
        less = step.emit("Less", distance, first_)
        kept = step.emit("Not", less if upper else step.emit("Less", first_, distance))
    return [step.emit("Where", kept, step.data, step.number(0, step.dtype(step.data)))]


def _scalar(step: Step, size: int | ir.Value) -> ir.Value:
    return step.number(np.int64(size)) if isinstance(size, int) else step.squeezed(size, [0])
