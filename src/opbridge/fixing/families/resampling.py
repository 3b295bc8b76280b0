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
    given = step.shape(step.data)
    wanted = step.input(3) if step.input(3) is not None and not by_scales else step.input(2)
    if numbers is None or numbers.size != len(axes):
        site.put(step, _to_any_sizes(step, axes, wanted, by_scales=wanted is step.input(2)))
        return "replaced Resize by matrix products with computed weights"
    result = step.data
    done = 0
    for place, (axis, number) in enumerate(zip(axes, numbers.ravel(), strict=True)):
        before = None if given is None else given[axis]
        if (by_scales and number == 1) or (not by_scales and before == int(number)):
            continue
        if not isinstance(before, int) or not before:
            assert wanted is not None
            result = _at_run_time(step, result, axis, step.sliced(wanted, place, place + 1, 0), by_scales)
            done += 1
            continue
        weights = _weights(step, before, float(number) if by_scales else int(number))
        result = _applied(step, result, step.number(weights, step.dtype(result)), axis, rank)
        done += 1
    site.put(step, result)
    if not done:
        return "removed a Resize to the same size"
    return f"replaced Resize by {done} matrix product{'s' * (done > 1)}"


def _to_any_sizes(step: Step, axes: Sequence[int], wanted: ir.Value | None, *, by_scales: bool) -> ir.Value:
    """The tensor at sizes computed at run time, those of the batch and the channels left as they are."""
    if wanted is None or step.shape(wanted) not in ([len(axes)], [None]):
        raise Refused("to computed sizes")
    result = step.data
    for place, axis in enumerate(axes):
        if axis >= 2 or len(axes) < step.rank():  # the first two of all are the batch and the channels
            result = _at_run_time(step, result, axis, step.sliced(wanted, place, place + 1, 0), by_scales)
    return result


def _at_run_time(step: Step, value: ir.Value, axis: int, number: ir.Value, by_scale: bool) -> ir.Value:
    """A tensor at another size along an axis, by weights computed at run time.

    Args:
        step: The call, and what builds.
        value: The tensor.
        axis: The axis.
        number: The scale or the size there, a list of one.
        by_scale: Whether it is a scale.
    """
    if step.get("antialias", 0):
        raise Refused("of a dynamic size with antialiasing")
    dtype = step.dtype(value)
    if dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        raise Refused("of a dynamic size in types other than float32 and float64")
    if step.to < 11:
        raise Refused("of a dynamic size below opset 11")
    before = step.cast(step.sizes(step.size(value, axis)), dtype)
    if by_scale:
        scale = step.cast(number, dtype)
        after = step.emit("Floor", step.emit("Mul", before, scale))
    else:
        after = step.cast(number, dtype)
        scale = step.emit("Div", after, before)
    zero, one = step.number(np.asarray(0)), step.number(np.asarray(1))
    counted = [
        step.cast(step.emit("Range", zero, step.squeezed(step.cast(each, ir.DataType.INT64), [0]), one), dtype)
        for each in (after, before)
    ]
    place = _places(step, counted[0], scale, before, after)
    weights = _taps(step, place, counted[1], before)
    return _applied(step, value, weights, axis, step.rank())


def _places(step: Step, counted: ir.Value, scale: ir.Value, before: ir.Value, after: ir.Value) -> ir.Value:
    """Where each element after comes from."""
    dtype = step.dtype(counted)
    mode = step.get("coordinate_transformation_mode", "half_pixel")
    one, half, nothing = (step.number([number], dtype) for number in (1.0, 0.5, 0.0))
    made: ir.Value
    if mode == "asymmetric":
        made = step.emit("Div", counted, scale)
        return made
    if mode == "align_corners":
        span = step.emit("Max", step.emit("Sub", after, one), one)
        made = step.emit("Div", step.emit("Mul", counted, step.emit("Sub", before, one)), span)
        return made
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        raise Refused(f"of a dynamic size with coordinate_transformation_mode={mode}")
    made = step.emit("Sub", step.emit("Div", step.emit("Add", counted, half), scale), half)
    if mode == "pytorch_half_pixel":
        made = step.emit("Where", step.emit("Greater", after, one), made, nothing)
    return made


def _taps(step: Step, place: ir.Value, counted: ir.Value, before: ir.Value) -> ir.Value:
    """The share that each element after has of each element before, (after, before)."""
    dtype = step.dtype(place)
    one, nothing = step.number([1.0], dtype), step.number([0.0], dtype)
    last = step.emit("Sub", before, one)
    made: ir.Value
    if step.get("mode", "nearest") == "linear":
        inside = step.unsqueezed(step.emit("Max", step.emit("Min", place, last), nothing), [1])
        made = step.emit("Relu", step.emit("Sub", one, step.emit("Abs", step.emit("Sub", inside, counted))))
        return made
    low = step.emit("Floor", place)
    share = step.emit("Sub", place, low)
    is_cut = bool(step.get("exclude_outside", 0))
    whole = step.cast(counted, ir.DataType.INT64)
    total: ir.Value | None = None
    for offset in (-1, 0, 1, 2):
        index = step.emit("Add", low, step.number([float(offset)], dtype))
        distance = step.emit("Abs", step.emit("Sub", share, step.number([float(offset)], dtype)))
        weight = _cubic(step, distance, far=offset in (-1, 2))
        if not is_cut:
            index = step.emit("Max", step.emit("Min", index, last), nothing)
        found = step.emit("Equal", step.unsqueezed(step.cast(index, ir.DataType.INT64), [1]), whole)
        part = step.emit("Mul", step.cast(found, dtype), step.unsqueezed(weight, [1]))
        total = part if total is None else step.emit("Add", total, part)
    assert total is not None
    if is_cut:
        total = step.emit("Div", total, step.reduced("ReduceSum", total, [1]))
    return total


def _cubic(step: Step, distance: ir.Value, *, far: bool) -> ir.Value:
    """The weight of a neighbour in a cubic convolution."""
    dtype, a = step.dtype(distance), float(step.get("cubic_coeff_a", -0.75))
    coefficients = (a, -5 * a, 8 * a, -4 * a) if far else (a + 2, -(a + 3), 0.0, 1.0)
    total = step.number([coefficients[0]], dtype)
    for each in coefficients[1:]:
        total = step.emit("Add", step.emit("Mul", total, distance), step.number([each], dtype))
    return total


_SETTINGS = ("mode", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "antialias")


def _weights(step: Step, before: int, number: float | int) -> np.ndarray:
    """The share that each element after has of each element before, (after, before): the Resize of unit vectors."""
    attributes = {name: value for name in _SETTINGS if (value := step.get(name)) is not None}
    if before * (before * number if isinstance(number, float) else number) > _LARGEST:
        raise Refused("of an axis of this size")
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
        raise Refused("in a form that ONNX Runtime does not support") from error
    return np.ascontiguousarray(found.reshape(before, -1).T)


def _applied(step: Step, value: ir.Value, weights: ir.Value, axis: int, rank: int) -> ir.Value:
    """A tensor with an axis multiplied by weights."""
    if axis == rank - 2:
        made: ir.Value = step.emit("MatMul", weights, value)
        return made
    stored = step.types.constant(weights)
    turned = (
        step.emit("Transpose", weights, perm=[1, 0])
        if stored is None
        else step.number(stored.T.copy(), step.dtype(weights))
    )
    if axis == rank - 1:
        made = step.emit("MatMul", value, turned)
        return made
    order: Sequence[int] = [*(each for each in range(rank) if each != axis), axis]
    back = [order.index(each) for each in range(rank)]
    moved = step.emit("Transpose", value, perm=list(order))
    made = step.emit("Transpose", step.emit("MatMul", moved, turned), perm=back)
    return made
