"""Resize by other operators: one MatMul an axis, with the weights that ONNX Runtime interpolates by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.errors import OpbridgeError
from opbridge.fixing.site import Refused, Site, repair
from opbridge.runtimes.onnxruntime import open_session

_LARGEST = 1 << 22
"""Weights of more elements than this are not written into a model."""


@repair("unsupported-attribute", "missing-operator", "no-kernel", operators=["Resize"])
def by_products(site: Site) -> str:
    """Interpolation along an axis is linear: a product with the weights of each element, which are constants.

    1. The sizes of the axes that change are known, before and after.
    2. The elements are floating: rounding is that of a product of matrices.
    3. No element comes from outside of the input (tf_crop_and_resize).
    """
    step = site.step()
    mode, coordinates = step.get("mode", "nearest"), step.get("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest" or coordinates == "tf_crop_and_resize":
        raise Refused(f"with mode={mode} and coordinate_transformation_mode={coordinates}")
    if step.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refused("that keeps the aspect ratio")
    if step.dtype(step.data) not in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        raise Refused("of integers")
    rank = step.rank()
    axes = [int(each) % rank for each in step.integers("axes") or range(rank)]
    scales, sizes = step.constant(2), step.constant(3)
    by_scales = scales is not None and scales.size == len(axes)
    numbers = scales if by_scales else sizes
    if numbers is None or numbers.size != len(axes):
        raise Refused("to sizes that the model computes")
    given = step.shape(step.data)
    result = step.data
    done = 0
    for axis, number in zip(axes, numbers.ravel(), strict=True):
        before = None if given is None else given[axis]
        if (by_scales and number == 1) or (not by_scales and before == int(number)):
            continue
        if not isinstance(before, int) or not before:
            raise Refused("of a dynamic size")
        weights = _weights(step, before, float(number) if by_scales else int(number))
        result = _applied(step, result, weights, axis, rank)
        done += 1
    site.put(step, result)
    if not done:
        return "left out a Resize to the same sizes"
    return f"wrote Resize as {done} product{'s' * (done > 1)} with constant weights"


_SETTINGS = ("mode", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "antialias")


def _weights(step: Step, before: int, number: float | int) -> np.ndarray:
    """The share that each element after has of each element before, (after, before): the Resize of unit vectors."""
    attributes = {name: value for name in _SETTINGS if (value := step.get(name)) is not None}
    if before * (before * number if isinstance(number, float) else number) > _LARGEST:
        raise Refused("of so large an axis")
    units = np.eye(before, dtype=np.float32).reshape(before, 1, before, 1)
    if isinstance(number, float):
        wanted = onnx.numpy_helper.from_array(np.array([1, 1, number, 1], np.float32), "wanted")
        inputs = ["x", "", "wanted"]
    else:
        wanted = onnx.numpy_helper.from_array(np.array([before, 1, number, 1], np.int64), "wanted")
        inputs = ["x", "", "", "wanted"]
    node = onnx.helper.make_node("Resize", inputs, ["y"], **attributes)
    float_ = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "units",
        [onnx.helper.make_tensor_value_info("x", float_, units.shape)],
        [onnx.helper.make_tensor_value_info("y", float_, None)],
        [wanted],
    )
    imports = [onnx.helper.make_opsetid("", max(step.to, 13))]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    try:
        (found,) = open_session(model.SerializeToString(), False, optimised=False).run(None, {"x": units})
    except OpbridgeError as error:
        raise Refused("in a form that ONNX Runtime does not compute") from error
    return np.ascontiguousarray(found.reshape(before, -1).T)


def _applied(step: Step, value: ir.Value, weights: np.ndarray, axis: int, rank: int) -> ir.Value:
    """A tensor with an axis multiplied by weights."""
    dtype = step.dtype(value)
    if axis == rank - 1:
        made: ir.Value = step.emit("MatMul", value, step.number(weights.T.copy(), dtype))
        return made
    if axis == rank - 2:
        made = step.emit("MatMul", step.number(weights, dtype), value)
        return made
    order: Sequence[int] = [*(each for each in range(rank) if each != axis), axis]
    back = [order.index(each) for each in range(rank)]
    moved = step.emit("Transpose", value, perm=list(order))
    made = step.emit("Transpose", step.emit("MatMul", moved, step.number(weights.T.copy(), dtype)), perm=back)
    return made
