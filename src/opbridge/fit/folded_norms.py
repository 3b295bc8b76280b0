"""Batch normalizations folded into the weights of the layer before them, on request.

In inference, a batch normalization multiplies each channel by a constant and adds another one. After a convolution, a
transposed convolution or a linear layer both can be in the layer's weights:

    (W x + b) scale + shift = (W scale) x + (b scale + shift)

The same holds for the products, quotients, sums and differences with constants of each channel in which frozen
normalizations and layer scales are written. Nodes are folded as long as they follow each other and nothing else reads
what is between them. A Transpose may stand between them, and stays: the channels are then another dimension.

The new weights are computed in float64 and rounded once, but the results are not those of the model bit by bit, so it
is done only where it is asked for. A layer keeps its nodes where

    - its weights are also read by a layer that is not folded in the same way, and are not small,
    - a constant of a channel is infinite or NaN, as for a variance and an epsilon of 0,
    - a new weight exceeds the range of its type, or those of a channel are all subnormal numbers of it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as passes

from opbridge.fit.fused.patterns import only_reader, put
from opbridge.fit.weight_layouts import SMALL_BYTES
from opbridge.onnx.value_names import ValueNames

__all__ = ["fold_norms"]

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass
class _Folded:
    """A layer with the nodes after it that can be in its weights.

    Attributes:
        layer: The layer.
        bias: Its bias; None: there is none. The Add after a MatMul is one of the nodes.
        scale: The factor of each channel of its output, (C,) of float64.
        shift: What is added to each channel, (C,) of float64, without the layer's own bias.
        nodes: The nodes after it.
        transposes: The Transposes before the last of them, which stay.
    """

    layer: ir.Node
    bias: ir.Value | None
    scale: np.ndarray
    shift: np.ndarray
    nodes: list[ir.Node] = field(default_factory=list)
    transposes: list[ir.Node] = field(default_factory=list)

    @property
    def weight(self) -> ir.Value:
        weight = self.layer.inputs[1]
        assert weight is not None
        return weight


def fold_norms(model: ir.Model) -> str:
    """Folds batch normalizations, and factors and summands of each channel, into the layers before them, in place.

    Args:
        model: The model. The shapes of its values are known, and its initializers have data.

    Returns:
        One sentence on what was folded; "": nothing was.
    """
    by_weight: dict[ir.Value, list[_Folded]] = defaultdict(list)
    for graph in (model.graph, *model.graph.subgraphs()):
        for found in _foldable(graph):
            by_weight[found.weight].append(found)
    names, layers, count = ValueNames(model), 0, 0
    for weight, group in by_weight.items():
        if not _may_grow(weight) and not _is_one(weight, group):
            continue
        made: dict[bytes, tuple[ir.Value, ir.Value] | None] = {}
        for found in group:
            key = found.scale.tobytes() + found.shift.tobytes() + str(id(found.bias)).encode() + _form(found.layer)
            if key not in made:
                made[key] = _constants(model, names, found)
            constants = made[key]
            if constants is not None:
                _replace(found, *constants)
                layers, count = layers + 1, count + len(found.nodes)
    if not layers:
        return ""
    passes.RemoveUnusedNodesPass()(model)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    into = "1 layer" if layers == 1 else f"{layers} layers"
    return f"folded: {nodes} into the weights of {into} (fold=True, --fold), which changes the results by rounding"


def _foldable(graph: ir.Graph) -> Iterator[_Folded]:
    """The layers of a graph that have nodes after them which can be in their weights."""
    for node in graph:
        if node.domain not in ("", "ai.onnx") or node.op_type not in _LAYERS or len(node.inputs) < 2:
            continue
        weight = _constant(node.inputs[1])
        if weight is None or weight.dtype not in _FLOATS:
            continue
        channels = _channels(node, weight)
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if channels is None or (bias is not None and _vector(bias, channels) is None):
            continue
        found = _Folded(node, bias, np.ones(channels), np.zeros(channels))
        if _extend(found, channels):
            yield found


def _extend(found: _Folded, channels: int) -> bool:
    """Finds the nodes after a layer that can be in its weights. Returns whether fewer nodes are left then."""
    current = found.layer.outputs[0]
    axis = -1 if found.layer.op_type == "MatMul" else 1
    passed: list[ir.Node] = []
    while (reader := only_reader(current)) is not None and reader.graph is found.layer.graph:
        if reader.op_type == "Transpose" and reader.domain in ("", "ai.onnx"):
            order = list(reader.attributes.get_ints("perm") or range(len(current.shape or ()))[::-1])
            if not order:
                break
            axis, current = order.index(range(len(order))[axis]), reader.outputs[0]
            passed.append(reader)
            continue
        step = _step(reader, current, axis, channels)
        if step is None:
            break
        scale, shift = step
        with np.errstate(over="ignore", invalid="ignore"):
            found.scale, found.shift = found.scale * scale, found.shift * scale + shift
        found.nodes.append(reader)
        found.transposes += passed
        current, passed = reader.outputs[0], []
    if found.layer.op_type != "MatMul":
        return bool(found.nodes)
    is_scaled = bool((found.scale != 1).any())
    return is_scaled and (len(found.nodes) > 1 or not found.shift.any())  # an Add stays, which is its bias


def _step(node: ir.Node, given: ir.Value, axis: int, channels: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The factor and the summand of each channel by which a node changes a value, each (C,) or one number."""
    if node.domain not in ("", "ai.onnx") or (given.shape is None and axis != -1):
        return None
    rank = 1 if given.shape is None else len(given.shape)  # at least one
    if node.op_type == "BatchNormalization":
        return _normalization(node, channels) if axis == 1 or (axis == -1 and rank == 2) else None
    if node.op_type not in ("Mul", "Div", "Add", "Sub") or len(node.inputs) != 2:
        return None
    position = 0 if node.inputs[0] is given else 1
    other = node.inputs[1 - position]
    tensor = _constant(other)
    if tensor is None or other is given:
        return None
    shape = tensor.shape.numpy()
    expected = [1] * rank
    expected[axis] = channels
    if len(shape) > rank or any(size not in (1, full) for size, full in zip(shape[::-1], expected[::-1], strict=False)):
        return None
    constant = tensor.numpy().astype(np.float64).reshape(-1)
    match node.op_type:
        case "Mul":
            return constant, np.zeros(1)
        case "Div" if position == 0:
            with np.errstate(divide="ignore"):
                return 1 / constant, np.zeros(1)
        case "Add":
            return np.ones(1), constant
        case "Sub":
            return (np.ones(1), -constant) if position == 0 else (-np.ones(1), constant)
    return None


def _normalization(node: ir.Node, channels: int) -> tuple[np.ndarray, np.ndarray] | None:
    if node.attributes.get_int("training_mode", 0) or any(each.uses() for each in node.outputs[1:]):
        return None
    vectors = [_vector(each, channels) for each in node.inputs[1:5]]
    if len(vectors) < 4 or any(each is None for each in vectors):
        return None
    weight, bias, mean, variance = vectors
    assert weight is not None and bias is not None and mean is not None and variance is not None
    epsilon = float(np.float32(node.attributes.get_float("epsilon", 1e-5)))
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = weight / np.sqrt(variance + epsilon)
        return scale, bias - mean * scale


def _constants(model: ir.Model, names: ValueNames, found: _Folded) -> tuple[ir.Value, ir.Value] | None:
    """The new weight and bias of a layer; None where its type does not hold them."""
    tensor = _constant(found.weight)
    assert tensor is not None
    kind, channels = tensor.numpy().dtype, len(found.scale)
    bias = np.zeros(channels) if found.bias is None else _vector(found.bias, channels)
    assert bias is not None
    with np.errstate(over="ignore", invalid="ignore"):
        vector = bias * _beta(found.layer) * found.scale + found.shift
        weight = _scaled(found.layer, tensor.numpy(), found.scale)
        new, new_bias = weight.astype(kind), vector.astype(kind)
    if not np.isfinite(vector).all() or not np.isfinite(found.scale).all() or not np.isfinite(new_bias).all():
        return None
    if not np.isfinite(new[np.isfinite(tensor.numpy())]).all() or _is_subnormal(found.layer, weight, kind):
        return None
    values = []
    for suffix, array in (("folded", new), ("folded_bias", new_bias)):
        name = names.unused(f"{found.weight.name}_{suffix}")
        made = ir.tensor(array, dtype=tensor.dtype, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=made)
        model.graph.initializers[name] = value
        values.append(value)
    return values[0], values[1]


def _replace(found: _Folded, weight: ir.Value, bias: ir.Value) -> None:
    """Puts a layer with other weights in the place of a layer and the nodes after it, without the Transposes."""
    last = found.nodes[-1].outputs[0]
    replaced = found.transposes[0].inputs[0] if found.transposes else last
    assert replaced is not None
    _put_layer(found, replaced, weight, bias)
    for each, following in itertools.pairwise(found.transposes):
        following.replace_input_with(0, each.outputs[0])
    if found.transposes:
        moved = found.transposes[-1]
        put(ir.Node("", "Transpose", [moved.inputs[0]], moved.attributes.values()), [last])


def _put_layer(found: _Folded, replaced: ir.Value, weight: ir.Value, bias: ir.Value) -> None:
    """Puts the layer, and the Add of its bias, in the place of the node that gives a value."""
    layer = found.layer
    attributes = [each for each in layer.attributes.values() if each.name != "beta"]
    if layer.op_type != "MatMul":
        put(ir.Node("", layer.op_type, [layer.inputs[0], weight, bias], attributes), [replaced])
        return
    product = ir.Node("", "MatMul", [layer.inputs[0], weight])
    product.outputs[0].shape, product.outputs[0].type = layer.outputs[0].shape, layer.outputs[0].type
    product.outputs[0].name, product.name = f"{layer.outputs[0].name}/folded", f"{layer.name}/folded"
    product.metadata_props.update(layer.metadata_props)
    before = replaced.producer()
    assert layer.graph is not None and before is not None
    if found.shift.any() or found.bias is not None:
        layer.graph.insert_before(before, product)
        put(ir.Node("", "Add", [product.outputs[0], bias]), [replaced])
    else:
        put(product, [replaced])


# The parameters of a layer, channel by channel


def _channels(layer: ir.Node, weight: ir.TensorProtocol) -> int | None:
    """The number of channels of a layer's output; None: its weight has not the shape of one."""
    shape = weight.shape.numpy()
    match layer.op_type:
        case "Conv" if len(shape) > 2:
            return shape[0]
        case "ConvTranspose" if len(shape) > 2 and shape[0] % _group(layer) == 0:
            return shape[1] * _group(layer)
        case "Gemm" if len(shape) == 2:
            return shape[0] if _is_transposed(layer) else shape[1]
        case "MatMul" if len(shape) == 2:
            return shape[1]
    return None


def _scaled(layer: ir.Node, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A weight, with a factor for each channel of the layer's output, in float64."""
    return weight.astype(np.float64) * _over(layer, weight, scale)


def _over(layer: ir.Node, weight: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A vector of the channels of a layer's output, in a shape that broadcasts with its weight."""
    if layer.op_type == "ConvTranspose":  # (inputs, channels of a group, ...), the inputs of one group after another
        groups = _group(layer)
        rows = np.repeat(vector.reshape(groups, -1), weight.shape[0] // groups, axis=0)
        return rows.reshape(*rows.shape, *[1] * (weight.ndim - 2))
    axis = 1 if layer.op_type == "MatMul" or (layer.op_type == "Gemm" and not _is_transposed(layer)) else 0
    return vector.reshape([-1 if each == axis else 1 for each in range(weight.ndim)])


def _is_subnormal(layer: ir.Node, weight: np.ndarray, kind: np.dtype) -> bool:
    """Whether the elements of a channel lose digits in a type, because all are below its normal numbers."""
    if not weight.size:
        return False
    sizes = np.abs(np.nan_to_num(weight))
    axes = {"Conv": 0, "ConvTranspose": None, "Gemm": 0 if _is_transposed(layer) else 1, "MatMul": 1}
    axis = axes[layer.op_type]
    if axis is None:
        groups = _group(layer)
        sizes = sizes.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1).max((1, 3)).reshape(-1)
    else:
        sizes = sizes.max(tuple(each for each in range(weight.ndim) if each != axis))
    return bool(((sizes < float(ml_dtypes.finfo(kind).smallest_normal)) & (sizes > 0)).any())


def _group(layer: ir.Node) -> int:
    return max(layer.attributes.get_int("group", 1), 1)


def _is_transposed(layer: ir.Node) -> bool:
    return bool(layer.attributes.get_int("transB", 0))


def _beta(layer: ir.Node) -> float:
    return layer.attributes.get_float("beta", 1.0) if layer.op_type == "Gemm" else 1.0


def _form(layer: ir.Node) -> bytes:
    """What of a layer says how its weight is read."""
    return f"{layer.op_type} {_group(layer)} {_is_transposed(layer)} {_beta(layer)}".encode()


# Constants


def _constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    return None if value is None or value.is_graph_input() else ir.convenience.get_const_tensor(value)


def _vector(value: ir.Value | None, channels: int) -> np.ndarray | None:
    """A constant of one number for each channel, or of one number for all, (C,) in float64."""
    tensor = _constant(value)
    if tensor is None or tensor.size not in (1, channels) or any(size != 1 for size in tensor.shape.numpy()[:-1]):
        return None
    return np.broadcast_to(tensor.numpy().astype(np.float64).reshape(-1), (channels,))


def _may_grow(weight: ir.Value) -> bool:
    tensor = _constant(weight)
    return tensor is not None and tensor.nbytes <= SMALL_BYTES


def _is_one(weight: ir.Value, group: Sequence[_Folded]) -> bool:
    """Whether all that reads a weight is folded, and in the same way, so that one new weight takes its place."""
    layers = {found.layer for found in group}
    first = group[0]
    return (
        not weight.is_graph_output()
        and all(node in layers for node in weight.consumers())
        and all(
            _form(found.layer) == _form(first.layer)
            and found.bias is first.bias
            and np.array_equal(found.scale, first.scale)
            and np.array_equal(found.shift, first.shift)
            for found in group
        )
    )
