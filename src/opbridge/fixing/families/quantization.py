"""Quantisation with zero points, and of constants, in floating numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_LARGEST = 1 << 26

_ZEROS = ("nonzero-input", "unsupported-number")
"""The rules that find a zero point that is not 0."""

_MIDDLE = 128

_SMALL = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16})
_FLOATING = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_SCALES_OF_ANY_FLOATS = 19
"""The opset from which on DequantizeLinear gives float16 and bfloat16."""

_MOVING = ("Flatten", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose results are elements of their first input, in another order."""

_MOVING_COMPUTED = (*_MOVING, "MaxPool", "Split")
"""Such operators, and others, of values that are computed."""


@repair(*_ZEROS, "unsupported-type", operators=["QuantizeLinear", "DequantizeLinear"])
def as_signed(site: Site) -> str:
    """uint8 with the zero point 128 is int8 with 0: what is quantised, or stored, is 128 less."""
    node = site.node
    writer = node if node.op_type == "QuantizeLinear" else None
    value = node.outputs[0] if writer is not None else node.inputs[0]
    assert value is not None
    readers = [each for each, _ in value.uses()]
    zeros = [_zero_of(each) for each in (node, *readers)]
    if value.dtype != ir.DataType.UINT8 or value.is_graph_output() or not readers:
        return ""
    if any(each is None or np.any(each != _MIDDLE) for each in zeros):
        return ""
    if any(each.op_type != "DequantizeLinear" or each.inputs[0] is not value for each in readers):
        return ""
    if writer is None:
        stored = _stored(value)
        if stored is None:
            return ""
        step = site.step()
        signed = step.number((stored.astype(np.int16) - _MIDDLE).astype(np.int8), ir.DataType.INT8)
        site.put_before(step)
        for reader in readers:
            reader.replace_input_with(0, signed)
    else:
        value.type = ir.TensorType(ir.DataType.INT8)
        if "output_dtype" in writer.attributes:
            writer.attributes["output_dtype"] = ir.AttrInt64("output_dtype", int(ir.DataType.INT8))
        readers.append(writer)
    for each in readers:
        step = site.step(each)
        zero = _zero_of(each)
        assert zero is not None
        made = step.number(np.zeros(zero.shape, np.int8), ir.DataType.INT8)
        site.put_before(step)
        each.replace_input_with(2, made)
    return "replaced uint8 with zero point 128 by int8 with zero point 0"


def _zero_of(node: ir.Node) -> np.ndarray | None:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    return None if value is None else _stored(value)


@repair("unsupported-type", "quantized-bias", *_ZEROS, operators=["DequantizeLinear"])
def dequantized_constant(site: Site) -> str:
    """A constant is stored as the numbers that it stands for, where that is a bias of int32 or it has zero points."""
    step = site.step()
    value, scale = step.data, step.input(1)
    assert scale is not None
    stored = [_stored(each) for each in (value, scale)]
    zero = step.input(2)
    if zero is not None:
        stored.append(_stored(zero))
    if any(each is None for each in stored):
        raise Refused("of computed values")
    numbers, scales, *zeros = [each for each in stored if each is not None]
    if step.get("block_size", 0):
        raise Refused("in blocks")
    axis = int(step.get("axis", 1))
    if scales.ndim and scales.size > 1:
        shape = [1] * numbers.ndim
        shape[axis % numbers.ndim] = scales.size
        scales, zeros = scales.reshape(shape), [each.reshape(shape) for each in zeros]
    elif scales.size == 1:
        scales, zeros = scales.reshape(()), [each.reshape(()) for each in zeros]
    shifted = numbers.astype(np.int64) - zeros[0].astype(np.int64) if zeros else numbers
    result = shifted.astype(scales.dtype) * scales
    dtype = step.dtype(step.node.outputs[0])
    site.put(step, step.number(result, dtype))
    return f"stored the dequantized values of {value.name}"


@repair("unsupported-type", "quantized-constant", operators=["Cast"])
def cast_of_constant(site: Site) -> str:
    """A Cast of a constant of int8 to floating numbers is a DequantizeLinear with the scale 1: it stays of int8.

    Of other small integers, and to other types, the constant is stored in the type that it is cast to.
    """
    step = site.step()
    value = step.data
    numbers, dtype, wide = _stored(value), step.dtype(value), step.dtype(site.node.outputs[0])
    if numbers is None or dtype not in _SMALL or wide in _SMALL:
        return ""
    if dtype == ir.DataType.INT8 and wide in _FLOATING:
        site.put(step, _dequantized(site, step, value, wide))
        return f"dequantized {value.name} with the scale 1"
    site.put(step, step.number(numbers, wide))
    return f"stored {value.name} in {wide.name.lower()}"


@repair("quantized-constant", "unsupported-type", operators=_MOVING)
def moved_after_dequantizing(site: Site) -> str:
    """What selects or moves elements of a constant of int8, before a Cast to floating numbers, does so after it."""
    step, node = site.step(), site.node
    value = step.data
    readers = [each for each, _ in node.outputs[0].uses()]
    types = {each.outputs[0].dtype for each in readers if each.op_type == "Cast"}
    if _stored(value) is None or step.dtype(value) != ir.DataType.INT8:
        return ""
    if len(types) != 1 or node.outputs[0].is_graph_output() or any(each.op_type != "Cast" for each in readers):
        raise Refused("whose results are used in int8")
    wide = types.pop()
    if wide not in _FLOATING:
        raise Refused("whose results are used in int8")
    attributes = {name: each.value for name, each in node.attributes.items()}
    given = _dequantized(site, step, value, wide)
    moved = step.emit(node.op_type, given, *node.inputs[1:], **attributes)
    results = [each.outputs[0] for each in readers]
    site.put(step, moved)
    moved.type = ir.TensorType(wide)
    for result in results:
        if not result.is_graph_output():  # which keeps its name, by a Cast that changes nothing
            ir.convenience.replace_all_uses_with(result, moved)
    return f"dequantized {value.name} with the scale 1 before {node.op_type}"


@repair("unsupported-form", "unsupported-type", operators=_MOVING_COMPUTED)
@repair(*_ZEROS, "quantized-uint8", operators=["QuantizeLinear"])
def moved_after_dequantizing_what_is_computed(site: Site) -> str:
    """The last of the operators that select or move quantized elements does so after they are dequantized."""
    node = site.node
    while True:
        readers = [each for value in node.outputs for each, _ in value.uses() if each.op_type in _MOVING_COMPUTED]
        if not readers:
            return "" if node.op_type == "QuantizeLinear" else _move_behind(site, node)
        node = readers[0]


def _move_behind(site: Site, node: ir.Node) -> str:
    """Dequantizes what a node reads in the place of its result.

    1. All that reads the result is DequantizeLinear with the scale of a tensor as a whole, the same everywhere.
    2. MaxPool moves elements as well, since the scale is positive.
    """
    step = site.step(node)
    value, results = step.data, node.outputs
    readers = [(each, at) for at, result in enumerate(results) for each, _ in result.uses()]
    if value.dtype not in _SMALL or any(each.is_graph_output() for each in results) or not readers:
        return ""
    if any(each.op_type != "DequantizeLinear" or each.inputs[0] is not results[at] for each, at in readers):
        raise Refused("whose result is also used by nodes other than DequantizeLinear")
    more = _more(readers[0][0])
    scale = None if more[0] is None else _stored(more[0])
    if scale is None or scale.size != 1 or scale.item() <= 0:
        raise Refused("whose scale is computed, or one for each channel")
    if any(not all(map(_same, _more(each), more)) for each, _ in readers):
        raise Refused("whose result is dequantized with several scales")
    attributes = {name: each.value for name, each in node.attributes.items()}
    given = step.emit("DequantizeLinear", value, *more)
    made = step.emit(node.op_type, given, *node.inputs[1:], outputs=len(results), **attributes)
    moved = [made] if len(results) == 1 else list(made)
    site.put_before(step)
    for reader, at in readers:
        _finish(site, reader, moved[at])
    if node.graph is not None:
        node.graph.remove(node, safe=True)
    return f"dequantized before {node.op_type}"


def _dequantized(site: Site, step: Step, value: ir.Value, wide: ir.DataType) -> ir.Value:
    """A constant of int8 in floating numbers. The scale is in their type from opset 19 on."""
    scaled = wide if site.opset >= _SCALES_OF_ANY_FLOATS else ir.DataType.FLOAT
    made = step.emit("DequantizeLinear", value, step.number(1.0, scaled))
    return made if scaled == wide else step.cast(made, wide)


def _stored(value: ir.Value) -> np.ndarray | None:
    """The elements of a stored value, also of many."""
    tensor, producer = value.const_value, value.producer()
    if value.is_graph_input():
        return None
    if tensor is None and producer is not None and producer.op_type == "Constant":
        attribute = producer.attributes.get("value")
        tensor = None if attribute is None else attribute.as_tensor()
    return None if tensor is None or tensor.size > _LARGEST else tensor.numpy()


@repair(*_ZEROS, "unsupported-type", "quantized-uint8", operators=["QuantizeLinear"])
def rounded_in_floats(site: Site) -> str:
    """A QuantizeLinear that DequantizeLinear alone reads, both with one scale: the two are a Round in floats."""
    step = site.step()
    node = step.node
    result = node.outputs[0]
    readers = [each for each, _ in result.uses()]
    zero, dtype = step.input(2), step.dtype(result)
    if not readers or result.is_graph_output() or any(not _is_inverse(each, node) for each in readers):
        raise Refused("whose result is also used by nodes other than DequantizeLinear")
    if dtype not in (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16):
        raise Refused(f"to {dtype.name.lower()}")
    scale = step.input(1)
    assert scale is not None
    floats = step.dtype(step.data)
    if floats != ir.DataType.FLOAT or step.get("block_size", 0):
        raise Refused("of types other than float32, or blockwise")
    shift = None if zero is None else _along(step, step.cast(zero, floats))
    wide = _along(step, scale)
    limits = np.iinfo(dtype.numpy())
    rounded = step.emit("Round", step.emit("Div", step.data, wide))
    if shift is not None:
        rounded = step.emit("Add", rounded, shift)
    lowest, highest = (step.number(float(each), floats) for each in (limits.min, limits.max))
    kept = step.emit("Min", step.emit("Max", rounded, lowest), highest)
    value = step.emit("Mul", kept if shift is None else step.emit("Sub", kept, shift), wide)
    site.put_before(step)
    site.stands_for(kept, node)
    for reader in readers:
        _finish(site, reader, value)
    if node.graph is not None:
        node.graph.remove(node, safe=True)
    return "rounded in float32, as QuantizeLinear and DequantizeLinear do"


def _finish(site: Site, reader: ir.Node, value: ir.Value) -> None:
    """Removes a DequantizeLinear whose result is computed otherwise; an output of the graph keeps its name."""
    site.stands_for(value, reader)
    for user, index in list(reader.outputs[0].uses()):
        user.replace_input_with(index, value)
    if reader.outputs[0].is_graph_output():
        step = site.step(reader)
        site.put(step, step.emit("Identity", value))
    elif reader.graph is not None:
        reader.graph.remove(reader, safe=True)


def _is_inverse(reader: ir.Node, node: ir.Node) -> bool:
    if reader.op_type != "DequantizeLinear" or reader.inputs[0] is not node.outputs[0]:
        return False
    given = [_same(one, other) for one, other in zip(_more(reader), _more(node), strict=True)]
    axes = [each.attributes.get_int("axis", 1) for each in (reader, node)]
    return all(given) and axes[0] == axes[1]


def _more(node: ir.Node) -> list[ir.Value | None]:
    return [*node.inputs[1:3], None, None][:2]


def _same(one: ir.Value | None, other: ir.Value | None) -> bool:
    if one is other:
        return True
    if one is None or other is None:
        return False
    left, right = _stored(one), _stored(other)
    return left is not None and right is not None and np.array_equal(left, right)


def _along(step: Step, value: ir.Value) -> ir.Value:
    """A scale for each channel, along its axis."""
    shape = step.shape(value)
    if not shape or shape == [1]:
        return value
    rank = step.rank()
    axis = int(step.get("axis", 1)) % rank
    return step.unsqueezed(value, [each for each in range(rank) if each != axis])
