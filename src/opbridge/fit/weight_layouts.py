"""Weights in the layout in which they are used.

A Linear is a MatMul with its parameter transposed. A node for that would be computed by the runtime at every start,
which would hold the weight twice meanwhile. Rules, weight by weight:

    1. Transpose, Reshape, Squeeze and Unsqueeze of a weight, and Gather of one slice of it, are replaced by an
       initializer that holds the weight in that layout. It is read from the weight's own memory when it is written.
    2. Nodes that give the same layout share one initializer.
    3. The model does not grow by that. A weight that is also read as it is (an embedding that is the output projection
       too) would be stored twice, so its nodes stay; likewise where its layouts together are larger than itself. Small
       weights are stored again.
    4. A node whose result is an output of its graph stays: ONNX has no initializers as outputs in all opsets.

Cast and Expand are left to the runtime: the one rounds or makes the file larger, and so does the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from opbridge.onnx.layouts import Layout, laid_out
from opbridge.onnx.value_names import ValueNames

__all__ = ["SMALL_BYTES", "store_as_used"]

SMALL_BYTES = 1 << 16
"""Up to this size, a weight may be stored in several layouts."""


def store_as_used(model: ir.Model) -> None:
    """Stores the weights of a model as they are used, in place.

    Args:
        model: The model. The initializers of its main graph have data.
    """
    storing = _Storing(model)
    for weight in list(model.graph.initializers.values()):
        storing.store(weight)


class _Storing:
    """The rules for one model."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._constants = model.graph.initializers
        self._names: ValueNames | None = None

    def store(self, weight: ir.Value) -> None:
        """Replaces the nodes that only lay a weight out, and those that lay out what they give."""
        if weight.const_value is None or weight.is_graph_input():
            return
        layouts: dict[Layout, list[ir.Node]] = {}
        is_read_as_it_is = weight.is_graph_output()
        for node, position in weight.uses():
            layout = _layout(node, weight) if position == 0 else None
            if layout is None or node.outputs[0].is_graph_output():
                is_read_as_it_is = True
            else:
                layouts.setdefault(layout, []).append(node)
        if not layouts or self._growth(weight, layouts, is_read_as_it_is) > SMALL_BYTES:
            return
        made = [self._replace(weight, layout, nodes) for layout, nodes in layouts.items()]
        self._remove_unread(weight)
        for value in made:
            self.store(value)

    def _growth(self, weight: ir.Value, layouts: Iterable[Layout], is_kept: bool) -> int:
        """By how many bytes the model grows."""
        tensor = weight.const_value
        assert tensor is not None
        before = [int(size) for size in tensor.shape]  # type: ignore[arg-type]
        bits = tensor.dtype.bitwidth
        after = sum(math.prod(layout.shape(before)) for layout in layouts)
        return (after - (0 if is_kept else math.prod(before))) * bits // 8

    def _replace(self, weight: ir.Value, layout: Layout, nodes: Sequence[ir.Node]) -> ir.Value:
        """Puts an initializer in the place of nodes that give one layout of a weight."""
        assert weight.const_value is not None and weight.name is not None
        tensor = laid_out(weight.const_value, layout, weight.name)
        if self._names is None:
            self._names = ValueNames(self._model)
        name = self._names.unused(weight.name + layout.suffix())
        kind, shape = ir.TensorType(tensor.dtype), ir.Shape([*tensor.shape])
        value = ir.Value(name=name, shape=shape, type=kind, const_value=tensor)
        self._constants[name] = value
        for node in nodes:
            arguments = [given for given in node.inputs[1:] if given is not None]
            node.outputs[0].replace_all_uses_with(value)
            graph = node.graph
            assert graph is not None
            graph.remove(node, safe=True)
            for argument in arguments:
                self._remove_unread(argument)
        return value

    def _remove_unread(self, value: ir.Value) -> None:
        if value.uses() or value.is_graph_output() or value.is_graph_input():
            return
        if value.name is not None and self._constants.get(value.name) is value:
            del self._constants[value.name]


def _layout(node: ir.Node, weight: ir.Value) -> Layout | None:
    """What a node does to a weight, its first input; None if it does anything else, or that depends on an input.

    None for nodes that are not valid too, which is for the runtime to say.
    """
    rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    tensor = weight.const_value
    if rule is None or tensor is None or tensor.dtype == ir.DataType.STRING or not tensor.size:
        return None
    return rule(node, [int(size) for size in tensor.shape])  # type: ignore[arg-type]


def _transpose(node: ir.Node, shape: list[int]) -> Layout | None:
    order = tuple(node.attributes.get_ints("perm", list(range(len(shape)))[::-1]))
    return Layout("transpose", order) if sorted(order) == list(range(len(shape))) else None


def _reshape(node: ir.Node, shape: list[int]) -> Layout | None:
    target = _numbers(node, 1, "shape")
    if target is None:
        return None
    if not node.attributes.get_int("allowzero", 0):
        target = [shape[axis] if size == 0 and axis < len(shape) else size for axis, size in enumerate(target)]
    if -1 in target:
        target[target.index(-1)] = math.prod(shape) // -math.prod(target) if math.prod(target) else 0
    return Layout("reshape", tuple(target)) if math.prod(target) == math.prod(shape) else None


def _squeeze(node: ir.Node, shape: list[int]) -> Layout | None:
    axes = _numbers(node, 1, "axes")
    if axes is None:
        if len(node.inputs) > 1 and node.inputs[1] is not None:
            return None
        axes = [axis for axis, size in enumerate(shape) if size == 1]
    if any(not -len(shape) <= axis < len(shape) or shape[axis] != 1 for axis in axes):
        return None
    dropped = {axis % len(shape) for axis in axes}
    return Layout("reshape", tuple(size for axis, size in enumerate(shape) if axis not in dropped))


def _unsqueeze(node: ir.Node, shape: list[int]) -> Layout | None:
    axes = _numbers(node, 1, "axes")
    if axes is None:
        return None
    rank = len(shape) + len(axes)
    added, sizes = {axis % rank for axis in axes if -rank <= axis < rank}, iter(shape)
    if len(added) < len(axes):
        return None
    return Layout("reshape", tuple(1 if axis in added else next(sizes) for axis in range(rank)))


def _gather(node: ir.Node, shape: list[int]) -> Layout | None:
    index = node.inputs[1]
    if index is None or index.const_value is None or len(index.const_value.shape) or not shape:
        return None
    axis = node.attributes.get_int("axis", 0) % len(shape)
    number = int(index.const_value.numpy())
    return Layout("select", (axis, number % shape[axis])) if -shape[axis] <= number < shape[axis] else None


_RULES = {
    "Gather": _gather,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


def _numbers(node: ir.Node, position: int, name: str) -> list[int] | None:
    """The integers of a constant input, or of the attribute that it was in older opsets."""
    if name in node.attributes:
        return list(node.attributes.get_ints(name, []))
    value = node.inputs[position] if len(node.inputs) > position else None
    if value is None or value.const_value is None:
        return None
    return [int(number) for number in value.const_value.numpy().reshape(-1)]
