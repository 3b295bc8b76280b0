"""Layers, pooling and resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from opbridge.onnx.downgrade.call import Call, changed

if TYPE_CHECKING:
    from opbridge.onnx.tensor import Tensor

_HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


@changed(17, "LayerNormalization")
def _layer_normalization_17(call: Call) -> Sequence[Tensor]:
    """LayerNormalization came with opset 17; half types are computed in float32."""
    data, scale = call.data, call.input(1)
    bias = call.input(2)
    axis = call.attributes.get("axis", -1)
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis, call.rank(data)))
    narrow = data.dtype in _HALVES
    x = call.emit("Cast", data, to=ir.DataType.FLOAT) if narrow else data
    mean = call.emit("ReduceMean", x, axes)
    centred = call.emit("Sub", x, mean)
    variance = call.emit("ReduceMean", call.emit("Mul", centred, centred), axes)
    deviation = call.emit("Sqrt", call.emit("Add", variance, call.attributes.get("epsilon", 1e-5)))
    result = call.emit("Div", centred, deviation)
    if narrow:
        result = call.emit("Cast", result, to=data.dtype)
    result = call.emit("Mul", result, scale)
    if bias is not None:
        result = call.emit("Add", result, bias)
    return result, mean, call.emit("Reciprocal", deviation)


@changed(12, "Dropout")
def _dropout_12(call: Call) -> Sequence[Tensor]:
    """Ratio and mode are inputs since opset 12; before, a model was never one in training."""
    training = call.input(2)
    if training is not None and (call.known(2) is None or bool(call.known(2))):
        call.refuse("in training")
    mask = call.emit("ConstantOfShape", call.emit("Shape", call.data), value=ir.tensor(np.ones(1, np.bool_)))
    return call.emit("Identity", call.data), mask


@changed(11, "Gemm")
def _gemm_11(call: Call) -> Sequence[Tensor]:
    """The bias may be left out since opset 11."""
    left, right = call.inputs[:2]
    bias: Any = call.input(2)
    if bias is None:
        bias = call.builder.constant(0, call.data.dtype)
    return call.older(left, right, bias, **call.attributes)


@changed(18, "Resize")
def _resize_18(call: Call) -> Sequence[Tensor]:
    """Antialiasing, axes and the keeping of proportions came with opset 18."""
    for name, what in (
        ("antialias", "antialiased"),
        ("axes", "of some axes"),
        ("keep_aspect_ratio_policy", "in proportion"),
    ):
        if name in call.attributes:
            call.refuse(what)
    return call.unchanged()


@changed(13, "Resize")
def _resize_13(call: Call) -> Sequence[Tensor]:
    """Inputs may be left out since opset 13; before, they were empty."""
    nothing = np.zeros(0, np.float32)
    data, roi, scales, sizes = (*call.inputs, None, None, None)[:4]
    roi = call.builder.constant(nothing) if roi is None else roi
    scales = call.builder.constant(nothing) if scales is None else scales
    return call.older(data, roi, scales, sizes, **call.attributes)


@changed(11, "Resize")
def _resize_11(call: Call) -> Sequence[Tensor]:
    """Before opset 11 there was one way to choose the coordinates; it repeats elements as often as the scales say."""
    wanted = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    plain = all(call.attributes.get(name, "nearest" if name == "mode" else None) == say for name, say in wanted.items())
    scales = call.known(2)
    sizes, target = call.sizes(call.data), call.known(3)
    if target is not None and sizes is not None and None not in sizes and 0 not in sizes:
        scales = target / np.asarray(sizes, np.float64)
    if not plain or scales is None or scales.size == 0 or (scales != np.floor(scales)).any() or (scales < 1).any():
        call.refuse("other than by repeating elements a constant number of times")
    factors = call.builder.constant(scales, ir.DataType.FLOAT)
    if call.builder.opset >= 10:
        return call.older(call.data, factors)
    return call.builder.call("Upsample", (call.data, factors), {}, version=9)


@changed(16, "RoiAlign")
def _roi_align_16(call: Call) -> Sequence[Tensor]:
    """The better coordinates came with opset 16, as the default."""
    attributes = dict(call.attributes)
    if attributes.pop("coordinate_transformation_mode", "half_pixel") != "output_half_pixel":
        call.refuse("with align_corners")
    return call.older(*call.inputs, **attributes)


@changed(10, "MaxPool")
@changed(18, "LpPool")
def _pool(call: Call) -> Sequence[Tensor]:
    """Steps within the window came with these opsets."""
    attributes = dict(call.attributes)
    if any(step != 1 for step in attributes.pop("dilations", ())):
        call.refuse("with steps within its window")
    if "ceil_mode" in attributes:
        call.refuse("with ceil_mode")
    return call.older(call.data, **attributes)


@changed(11, "DepthToSpace")
def _depth_to_space_11(call: Call) -> Sequence[Tensor]:
    """Blocks of channels could not come last before opset 11; the channels are put in the other order."""
    attributes = dict(call.attributes)
    data = call.data
    if attributes.pop("mode", "DCR") == "CRD":
        channels = call.size(data, 1)
        if not isinstance(channels, int):
            call.refuse("of a dynamic number of channels")
        places = np.arange(channels).reshape(-1, attributes["blocksize"] ** 2).T
        data = call.emit("Gather", data, places.ravel(), axis=1)
    return call.older(data, **attributes)
