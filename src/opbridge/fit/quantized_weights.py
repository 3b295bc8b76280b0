"""Weights of integers, in the form that ONNX Runtime takes into its products of quantised matrices.

Rules, node by node, where the weight is a constant. Each gives the same numbers, but for the rounding of sums:

    1. QuantizeLinear of a constant, and Clip of constant integers, are the constants that they give.
    2. A product with a weight that is cast from integers, multiplied by a scale for each column, is a product with the
       DequantizeLinear of the weight and the scale.
    3. A transposed DequantizeLinear is the DequantizeLinear of the transposed integers.
    4. Gemm with such a weight becomes MatMul and Add, with the weight untransposed; not where its input is dequantised
       and its output is quantised again.
    5. A block that is as long as its axis is no block.
    6. Integers from -8 to 7 are stored in 4 bits, where the opset has these.
    7. What is dequantised several times is dequantised once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

__all__ = ["arrange"]

_T = ir.DataType
_BYTES = frozenset({_T.INT8, _T.UINT8})
_INTEGERS = _BYTES | {_T.INT16, _T.UINT16}
_AXIS_SINCE, _FOUR_BITS_SINCE = 13, 21


def arrange(model: ir.Model) -> bool:
    """Rewrites the quantised weights of a model, in place; what is no longer read is left in it.

    Args:
        model: The model. The types of its values are known.

    Returns:
        Whether it has any.
    """
    if not any(value.dtype in _INTEGERS for value in model.graph.initializers.values()):
        if not any(node.op_type == "QuantizeLinear" for node in model.graph):
            return False
    for graph in [model.graph, *model.graph.subgraphs()]:
        arrangement = _Arrangement(graph, model)
        for rule in (
            arrangement.quantize_constant,
            arrangement.dequantize_cast,
            arrangement.transpose,
            arrangement.untranspose_gemm,
            arrangement.widen_blocks,
            arrangement.narrow,
            arrangement.merge,
        ):
            for node in list(graph):
                if node.domain == "" and node.graph is graph:
                    rule(node)
    return True


class _Arrangement:
    """The rules for one graph.

    Args:
        graph: The graph.
        model: The model that it is in, which holds the constants.
    """

    def __init__(self, graph: ir.Graph, model: ir.Model) -> None:
        self._graph = graph
        self._constants = model.graph.initializers
        self._opset = model.opset_imports.get("", 0)
        self._transposed: dict[Any, ir.Value] = {}
        self._dequantized: dict[Any, ir.Value] = {}

    def quantize_constant(self, node: Any) -> None:
        """Rule 1."""
        if node.op_type == "Clip":
            self._clip_constant(node)
            return
        if node.op_type != "QuantizeLinear" or any(name != "axis" for name in node.attributes):
            return
        x, scale = _array(node.inputs[0]), _array(node.inputs[1])
        zero = _array(node.inputs[2]) if len(node.inputs) > 2 else None
        if x is None or scale is None or zero is None or zero.dtype not in (np.int8, np.uint8) or x.ndim < 2:
            return
        if scale.size != 1:
            shape = [1] * x.ndim
            shape[node.attributes.get_int("axis", 1)] = -1
            scale, zero = scale.reshape(shape), zero.reshape(shape)
        limits = np.iinfo(zero.dtype)
        steps = np.rint(x / scale) + zero.astype(np.float32)
        integers = np.clip(steps, limits.min, limits.max).astype(zero.dtype)
        self._replace(node, self._constant(f"{node.inputs[0].name}_quantized", integers, node.outputs[0].dtype))

    def _clip_constant(self, node: Any) -> None:
        x, *limits = (_array(value) for value in node.inputs)
        if x is None or x.dtype not in (np.int8, np.uint8) or len(limits) != 2 or any(each is None for each in limits):
            return
        value = self._constant(
            f"{node.inputs[0].name}_clipped", np.clip(x, limits[0], limits[1]), node.outputs[0].dtype
        )
        self._replace(node, value)

    def dequantize_cast(self, node: Any) -> None:
        """Rule 2."""
        if node.op_type != "Mul":
            return
        for product, scale in (node.inputs, node.inputs[::-1]):
            matrix = product.producer() if product is not None else None
            factor = _array(scale)
            if matrix is None or factor is None or matrix.op_type != "MatMul" or not _is_read_once(product):
                continue
            cast = matrix.inputs[1].producer()
            if cast is None or cast.op_type != "Cast" or not _is_weight(cast.inputs[0]):
                continue
            weight = cast.inputs[0]
            width = weight.shape[-1]
            if factor.size not in (1, width) or (factor.size > 1 and factor.shape[-1] != width):
                continue
            if cast.outputs[0].dtype != _T.FLOAT or factor.dtype != np.float32:
                continue
            name = f"{node.name}/dequantized"
            column = self._constant(f"{scale.name}_column", factor.reshape([] if factor.size == 1 else [-1]))
            if factor.size > 1 and self._opset < _AXIS_SINCE:
                continue
            attributes = {} if factor.size == 1 else {"axis": 1}
            made = self._insert(matrix, "DequantizeLinear", [weight, column], attributes, name, weight.shape)
            matrix.replace_input_with(1, made)
            self._replace(node, product)
            return

    def transpose(self, node: Any) -> None:
        """Rule 3."""
        if node.op_type != "Transpose":
            return
        dequantized = node.inputs[0].producer()
        if dequantized is None or not _dequantizes_weight(dequantized):
            return
        rank = len(dequantized.inputs[0].shape)
        order = tuple(node.attributes.get_ints("perm", list(range(rank))[::-1]))
        self._replace(node, self._dequantize_transposed(dequantized, order, node.outputs[0].name))

    def untranspose_gemm(self, node: Any) -> None:
        """Rule 4."""
        if node.op_type != "Gemm" or node.attributes.get_int("transA", 0):
            return
        if any(node.attributes.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta")):
            return
        weight = node.inputs[1].producer()
        if weight is None or not _dequantizes_weight(weight):
            return
        before = node.inputs[0].producer()
        is_quantized = before is not None and before.op_type == "DequantizeLinear"
        if is_quantized and _is_read_once(node.outputs[0]) and _leads_to_quantization(node.outputs[0]):
            return
        matrix = node.inputs[1]
        if node.attributes.get_int("transB", 0):
            matrix = self._dequantize_transposed(weight, (1, 0), f"{node.name}/weight")
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        result = node.outputs[0]
        product = self._insert(node, "MatMul", [node.inputs[0], matrix], {}, f"{node.name}/product", result.shape)
        if bias is not None:
            product = self._insert(node, "Add", [product, bias], {}, f"{node.name}/sum", result.shape)
        self._replace(node, product)

    def widen_blocks(self, node: Any) -> None:
        """Rule 5."""
        if not _dequantizes_weight(node) or "block_size" not in node.attributes:
            return
        rank = len(node.inputs[0].shape)
        axis = node.attributes.get_int("axis", 1) % rank
        if rank != 2 or node.inputs[1].shape[axis] != 1:
            return
        for position in range(1, len(node.inputs)):
            value = node.inputs[position]
            array = _array(value)
            assert array is not None
            node.replace_input_with(position, self._constant(f"{value.name}_row", array.reshape(-1), value.dtype))
        del node.attributes["block_size"]
        node.attributes["axis"] = ir.AttrInt64("axis", 1 - axis)

    def narrow(self, node: Any) -> None:
        """Rule 6."""
        if self._opset < _FOUR_BITS_SINCE or not _dequantizes_weight(node) or node.inputs[0].dtype != _T.INT8:
            return
        parts = [node.inputs[0], *node.inputs[2:]]
        arrays = [_array(value) for value in parts]
        if not all(array is not None and _is_narrow(array) for array in arrays):
            return
        for position, value, array in zip((0, 2), parts, arrays, strict=False):
            assert array is not None
            key = (f"{value.name}:int4", ())
            if key not in self._transposed:
                self._transposed[key] = self._constant(f"{value.name}_int4", array.astype(_T.INT4.numpy()), _T.INT4)
            node.replace_input_with(position, self._transposed[key])

    def merge(self, node: Any) -> None:
        """Rule 7."""
        if node.op_type != "DequantizeLinear":
            return
        attributes = tuple(sorted((name, attribute.value) for name, attribute in node.attributes.items()))
        key = (*map(id, node.inputs), attributes)
        first = self._dequantized.setdefault(key, node.outputs[0])
        if first is not node.outputs[0] and not node.outputs[0].is_graph_output():
            node.outputs[0].replace_all_uses_with(first)
            self._graph.remove(node, safe=True)

    def _dequantize_transposed(self, node: Any, order: tuple[int, ...], name: str) -> ir.Value:
        """The result of a DequantizeLinear of a weight, transposed."""
        rank = len(order)
        attributes: dict[str, Any] = {key: attribute.value for key, attribute in node.attributes.items()}
        blocked = bool(attributes.get("block_size"))
        if blocked or node.inputs[1].shape.rank():
            attributes["axis"] = order.index(attributes.get("axis", 1) % rank)
        inputs = [self._transposed_constant(node.inputs[0], order)]
        inputs += [self._transposed_constant(each, order) if blocked else each for each in node.inputs[1:]]
        return self._insert(node, node.op_type, inputs, attributes, f"{name}_t", inputs[0].shape)

    def _transposed_constant(self, value: ir.Value, order: tuple[int, ...]) -> ir.Value:
        key = (value.name, order)
        if key not in self._transposed:
            array = _array(value)
            assert array is not None
            transposed = np.ascontiguousarray(np.transpose(array, order))
            self._transposed[key] = self._constant(f"{value.name}_t", transposed, value.dtype)
        return self._transposed[key]

    def _constant(self, name: str, array: np.ndarray, dtype: ir.DataType | None = None) -> ir.Value:
        """A new constant of the model."""
        name = _unused(name, self._constants)
        data = ir.Tensor(array, dtype=dtype, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(data.dtype), const_value=data)
        self._constants[name] = value
        return value

    def _insert(
        self, near: Any, op_type: str, inputs: Sequence[Any], attributes: Mapping[str, Any], name: str, shape: Any
    ) -> ir.Value:
        """The output of a new float32 node, before another one whose metadata it takes over."""
        made = ir.node(op_type, inputs, attributes, name=name)
        output = made.outputs[0]
        output.name, output.shape, output.dtype = name, shape, _T.FLOAT
        made.metadata_props.update({key: text for key, text in near.metadata_props.items() if key != "opbridge.node"})
        self._graph.insert_before(near, made)
        return output

    def _replace(self, node: Any, value: Any) -> None:
        """Puts a value in the place of a node's output, under the name of that output where it is no constant."""
        result = node.outputs[0]
        outputs = self._graph.outputs
        producer = value.producer()
        if any(result is output for output in outputs):
            if producer is None:
                return
            for index, output in enumerate(outputs):
                if output is result:
                    outputs[index] = value
        result.replace_all_uses_with(value)
        self._graph.remove(node, safe=True)
        if producer is not None:
            value.name = result.name
            producer.metadata_props.update(node.metadata_props)


def _array(value: Any) -> np.ndarray | None:
    """The numbers of a constant."""
    if value is None or value.const_value is None:
        return None
    return value.const_value.numpy()


def _is_weight(value: Any) -> bool:
    """Whether a value is a constant matrix of bytes."""
    return value is not None and value.const_value is not None and value.dtype in _BYTES and value.shape.rank() == 2


def _dequantizes_weight(node: Any) -> bool:
    """Whether a node is a DequantizeLinear of a constant of bytes, with constant parameters."""
    if node.op_type != "DequantizeLinear" or node.domain != "":
        return False
    known = all(value is not None and value.const_value is not None for value in node.inputs)
    return known and node.inputs[0].dtype in _BYTES and node.inputs[0].shape.rank() > 1


def _is_narrow(array: np.ndarray) -> bool:
    return not array.size or (int(array.min()) >= -8 and int(array.max()) <= 7)


def _is_read_once(value: Any) -> bool:
    return len(value.uses()) == 1 and not value.is_graph_output()


def _leads_to_quantization(value: Any) -> bool:
    """Whether the only reader of a value quantises it, perhaps after Relu."""
    reader = next(iter(value.consumers()))
    if reader.op_type in ("Relu", "Clip") and _is_read_once(reader.outputs[0]):
        reader = next(iter(reader.outputs[0].consumers()))
    return reader.op_type == "QuantizeLinear"


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    count, found = 0, name
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found
