"""The shapes of a node's outputs, as far as those of its inputs tell.

A rule for each common operator, in all the forms that it has had since opset 9; ONNX's own inference for the others. A
size is an int, the name of a dynamic dimension, or None where it is not known. Sizes of one name are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx
import onnx_ir as ir

from opbridge.onnx import damage

__all__ = ["Size", "Sizes", "elements", "has_rule", "infer", "note_sizes", "sizes"]

Size: TypeAlias = int | str | None
Sizes: TypeAlias = list[Size]

_SIZES = "opbridge.sizes"

_LARGEST = 64
"""Constants of more elements than this are no sizes, axes or bounds."""

_MOST_NODES = 64
"""So many nodes that compute sizes are looked at for one tensor of them."""

_END = 1 << 31
"""A slice that ends here or later takes everything, by the convention of exporters."""


def infer(node: ir.Node, opset: int) -> list[Sizes | None]:
    """The shapes of a node's outputs; None for one of which not even the number of dimensions is known.

    Args:
        node: A node whose inputs have the shapes that are known of them.
        opset: The opset that it is built for.
    """
    if node.domain not in ("", "ai.onnx"):
        return [None] * len(node.outputs)
    if node.op_type in _WITH_BODIES:
        taken = _branch(node) if node.op_type == "If" else None
        return [None] * len(node.outputs) if taken is None else [sizes(each) for each in taken.outputs]
    rule = _RULES.get(node.op_type)
    if rule is None:
        return _inferred_by_onnx(node, opset)
    try:
        found = rule(node)
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError, ZeroDivisionError):  # no valid node
        found = []
    return [*found, *[None] * (len(node.outputs) - len(found))]


def has_rule(node: ir.Node) -> bool:
    """Whether there is a rule here for a node's operator, which asks nothing of ONNX."""
    return node.op_type in _RULES and node.domain in ("", "ai.onnx")


def sizes(value: ir.Value | None) -> Sizes | None:
    """A value's shape as a list; None where not even the number of dimensions is known."""
    if value is None:
        return None
    if value.shape is None:
        noted: Sizes | None = value.meta.get(_SIZES)
        return None if noted is None else list(noted)
    return [size if isinstance(size, int) else size.value for size in value.shape]


def note_sizes(value: ir.Value, known: Sizes) -> None:
    """Notes what is known of a value's shape for `sizes`, where the file is not to have it."""
    value.meta[_SIZES] = known


_WITH_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def _inferred_by_onnx(node: ir.Node, opset: int) -> list[Sizes | None]:
    types: dict[str, onnx.TypeProto] = {}
    constants: dict[str, onnx.TensorProto] = {}
    for given in node.inputs:
        if given is None or given.dtype is None or given.name is None:
            continue
        types[given.name] = onnx.helper.make_tensor_type_proto(int(given.dtype), sizes(given))
        data = _stored(given)
        if data is not None and data.size <= _LARGEST and not damage.unreadable(data):
            constants[given.name] = ir.serde.serialize_tensor(data)
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, opset, ""),
            ir.serde.serialize_node(node),
            types,
            constants,
            opset_imports=[onnx.helper.make_opsetid("", opset)],
        )
    except (
        onnx.defs.SchemaError,
        onnx.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        KeyError,
        RuntimeError,
        TypeError,
        ValueError,
    ):
        return [None] * len(node.outputs)
    return [_of_type(inferred.get(output.name or "")) for output in node.outputs]


def _of_type(found: onnx.TypeProto | None) -> Sizes | None:
    if found is None or not found.HasField("tensor_type") or not found.tensor_type.HasField("shape"):
        return None
    dims = found.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]


# What the rules read


def _input(node: ir.Node, position: int) -> ir.Value | None:
    return node.inputs[position] if position < len(node.inputs) else None


def _data(node: ir.Node) -> Sizes | None:
    return sizes(_input(node, 0))


def _integer(node: ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()


def _constant(value: ir.Value | None) -> list[int] | None:
    """The elements of a small constant of integers."""
    data = _stored(value)
    if data is None or data.size > _LARGEST or not data.dtype.is_integer():
        return None
    try:
        return [int(number) for number in data.numpy().ravel()]
    except Exception:  # of a damaged tensor, or one whose file is not there, onnx_ir and numpy raise anything
        return None


def _stored(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The elements of an initializer, or of what a Constant gives."""
    if value is None or value.const_value is not None:
        return None if value is None else value.const_value
    node = value.producer()
    if node is None or node.op_type != "Constant":
        return None
    for name, attribute in node.attributes.items():
        if not attribute.is_ref() and name in ("value", "value_int", "value_ints"):
            return attribute.as_tensor() if name == "value" else ir.tensor(attribute.value, dtype=ir.DataType.INT64)
    return None


def _is_given(node: ir.Node, position: int, name: str) -> bool:
    """Whether a call has an argument that was an attribute in older forms and is an input in newer ones."""
    return name in node.attributes or _input(node, position) is not None


def _integers(node: ir.Node, position: int, name: str) -> list[int] | None:
    """Such an argument, if it is a constant."""
    attribute = node.attributes.get(name)
    if attribute is None:
        return _constant(_input(node, position))
    return list(attribute.as_ints()) if attribute.type == ir.AttributeType.INTS else [attribute.as_int()]


def elements(value: ir.Value | None, left: list[int] | None = None) -> Sizes | None:
    """The elements of a tensor of sizes, such as a target of Reshape; None where not even their number is known.

    Args:
        value: The tensor.
        left: How many nodes that compute it may be looked at still; None: as many as are for one size.
    """
    constant = _constant(value)
    if value is None or constant is not None:
        return constant  # type: ignore[return-value]
    node, left = value.producer(), [_MOST_NODES] if left is None else left
    left[0] -= 1
    found = None if node is None or left[0] < 0 else _computed_elements(node, value, left)
    if found is not None:
        return found
    shape = sizes(value)
    length = shape[0] if shape else None
    return [None] * length if isinstance(length, int) and length <= _LARGEST else None


def _computed_elements(node: ir.Node, value: ir.Value, left: list[int]) -> Sizes | None:
    """The elements of an output of a node, as `elements`."""
    if node.op_type == "Shape":
        shape = _data(node)
        end = node.attributes.get("end")
        return None if shape is None else shape[_integer(node, "start", 0) : None if end is None else end.as_int()]
    if node.op_type == "Concat":
        parts = [elements(part, left) for part in node.inputs]
        return None if any(part is None for part in parts) else [size for part in parts for size in part or ()]
    if node.op_type in ("Reshape", "Unsqueeze", "Squeeze") and sizes(node.outputs[0]) in ([1], []):
        inner = _input(node, 0)
        maker = None if inner is None else inner.producer()
        if inner is None or maker is None or maker.op_type not in ("Gather", "Shape"):
            return None
        return _computed_elements(maker, inner, left)
    if node.op_type == "Gather" and _integer(node, "axis", 0) == 0:
        inner, places = _input(node, 0), _constant(_input(node, 1))
        known = elements(inner, left) if len(sizes(inner) or ()) == 1 else None
        if known is None or places is None or not all(-len(known) <= place < len(known) for place in places):
            return None
        return [known[place] for place in places]
    if node.op_type == "Identity":
        return elements(_input(node, 0), left)
    if node.op_type in _OF_TWO and len(node.inputs) == 2:
        return _of_two(node, left)
    if node.op_type == "Size":
        shape = _data(node)
        return [math.prod(shape)] if shape is not None and _is_known(shape) else None  # type: ignore[arg-type]
    if node.op_type == "If":
        taken = _branch(node, left)
        return None if taken is None else elements(taken.outputs[node.outputs.index(value)], left)
    return None


_OF_TWO: dict[str, Callable[[int, int], int]] = {
    "Add": lambda one, other: one + other,
    "Sub": lambda one, other: one - other,
    "Equal": lambda one, other: int(one == other),
}


def _of_two(node: ir.Node, left: list[int]) -> Sizes | None:
    """What an operator gives of two lists of numbers, or of a number and a list."""
    one, other = (elements(each, left) for each in node.inputs)
    if one is None or other is None or len({len(one), len(other)} - {1}) > 1:
        return None
    length = max(len(one), len(other)) if one and other else 0
    pairs = zip(*([each[0]] * length if len(each) == 1 else each for each in (one, other)), strict=False)
    work = _OF_TWO[node.op_type]
    return [work(a, b) if isinstance(a, int) and isinstance(b, int) else None for a, b in pairs]


def _branch(node: ir.Node, left: list[int] | None = None) -> ir.Graph | None:
    """The branch of an If that runs, where sizes decide; None where they do not."""
    decided = elements(_input(node, 0), left)
    if decided is None or len(decided) != 1 or not isinstance(decided[0], int):
        return None
    branch = node.attributes.get("then_branch" if decided[0] else "else_branch")
    if branch is None or branch.type != ir.AttributeType.GRAPH:
        return None
    graph = branch.as_graph()
    return graph if len(graph.outputs) == len(node.outputs) else None


def _is_known(shape: Sequence[Size]) -> bool:
    return all(isinstance(size, int) for size in shape)


def _broadcast(*shapes: Sequence[Size] | None) -> Sizes | None:
    if any(shape is None for shape in shapes):
        return None
    given = [shape for shape in shapes if shape is not None]
    rank = max(map(len, given), default=0)
    padded: list[Sizes] = [[*[1] * (rank - len(shape)), *shape] for shape in given]
    return [_common([shape[axis] for shape in padded]) for axis in range(rank)]


def _common(given: Sequence[Size]) -> Size:
    """The size that these broadcast to."""
    others = {size for size in given if size != 1}
    if not others:
        return 1
    numbers = [size for size in others if isinstance(size, int)]
    if numbers:
        return numbers[0] if len(numbers) == 1 else None
    return others.pop() if len(others) == 1 else None


# Rules: from a node to the shapes of its outputs, or of the first of them

_Rule: TypeAlias = Callable[[ir.Node], Sequence[Sizes | None]]


def _same(node: ir.Node) -> Sequence[Sizes | None]:
    return [_data(node)]


def _same_twice(node: ir.Node) -> Sequence[Sizes | None]:
    return [_data(node), _data(node)][: len(node.outputs)]


def _like_indices(node: ir.Node) -> Sequence[Sizes | None]:
    return [sizes(_input(node, 1))]


def _elementwise(node: ir.Node) -> Sequence[Sizes | None]:
    return [_broadcast(*map(sizes, node.inputs))]


def _shape(node: ir.Node) -> Sequence[Sizes | None]:
    found = _computed_elements(node, node.outputs[0], [_MOST_NODES])
    return [[None] if found is None else [len(found)]]


def _scalar(node: ir.Node) -> Sequence[Sizes | None]:
    return [[]]


def _transpose(node: ir.Node) -> Sequence[Sizes | None]:
    data = _data(node)
    if data is None:
        return [None]
    order = node.attributes.get("perm")
    return [data[::-1] if order is None else [data[axis] for axis in order.as_ints()]]


def _reshape(node: ir.Node) -> Sequence[Sizes | None]:
    target, data = elements(_input(node, 1)), _data(node)
    if target is None:
        return [None]
    result = list(target)
    if not _integer(node, "allowzero", 0):
        copied = data or []
        result = [copied[at] if size == 0 and at < len(copied) else size for at, size in enumerate(result)]
        result = [None if size == 0 and data is None else size for size in result]
    if -1 in result:
        result[result.index(-1)] = None if data is None else _remaining(data, [size for size in result if size != -1])
    return [result]


def _remaining(data: Sizes, others: Sizes) -> Size:
    """The size that is left for a dimension when elements of a shape go to dimensions of other sizes."""
    names = [size for size in data if not isinstance(size, int)]
    for size in others:
        if size in names:
            names.remove(size)
        elif not isinstance(size, int):
            return None
    count = math.prod(size for size in data if isinstance(size, int))
    taken = math.prod(size for size in others if isinstance(size, int))
    if not names:
        return count // taken if taken else None
    return names[0] if len(names) == 1 and count == taken else None


def _flatten(node: ir.Node) -> Sequence[Sizes | None]:
    data, axis = _data(node), _integer(node, "axis", 1)
    if data is None:
        return [[None, None]]
    parts = data[:axis], data[axis:]
    return [[math.prod(part) if _is_known(part) else None for part in parts]]  # type: ignore[arg-type]


def _unsqueeze(node: ir.Node) -> Sequence[Sizes | None]:
    data, axes = _data(node), _integers(node, 1, "axes")
    if data is None or axes is None:
        return [None]
    rank, rest = len(data) + len(axes), iter(data)
    new = {axis % rank for axis in axes}
    return [[1 if axis in new else next(rest) for axis in range(rank)]]


def _squeeze(node: ir.Node) -> Sequence[Sizes | None]:
    data, axes = _data(node), _integers(node, 1, "axes")
    if data is None:
        return [None]
    if not _is_given(node, 1, "axes"):
        return [[size for size in data if size != 1] if _is_known(data) else None]
    if axes is None:
        return [None]
    gone = {axis % len(data) for axis in axes}
    return [[size for axis, size in enumerate(data) if axis not in gone]]


def _concat(node: ir.Node) -> Sequence[Sizes | None]:
    shapes = [sizes(value) for value in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return [None]
    axis = _integer(node, "axis", 1) % len(known[0])
    result = [
        next((shape[at] for shape in known if isinstance(shape[at], int)), size) for at, size in enumerate(known[0])
    ]
    along = [None if shape is None else shape[axis] for shape in shapes]
    result[axis] = sum(along) if _is_known(along) else None  # type: ignore[arg-type]
    return [result]


def _split(node: ir.Node) -> Sequence[Sizes | None]:
    data, count = _data(node), len(node.outputs)
    if data is None:
        return []
    axis = _integer(node, "axis", 0) % len(data)
    lengths: Sequence[Size] | None = _integers(node, 1, "split")
    if lengths is None and (computed := elements(_input(node, 1))) is not None and len(computed) == count:
        lengths = computed
    whole = data[axis]
    if lengths is None and isinstance(whole, int) and not _is_given(node, 1, "split"):
        part = -(-whole // count)
        lengths = [min(part, max(whole - part * at, 0)) for at in range(count)]
    return [[*data[:axis], length, *data[axis + 1 :]] for length in lengths or [None] * count]


def _slice(node: ir.Node) -> Sequence[Sizes | None]:
    data = _data(node)
    if data is None:
        return [None]
    starts, ends = _integers(node, 1, "starts"), _integers(node, 2, "ends")
    axes: list[int] | None = _integers(node, 3, "axes")
    if not _is_given(node, 3, "axes"):
        axes = None if starts is None else list(range(len(starts)))
    if axes is None:
        return [[None] * len(data)]
    unknown = [None] * len(axes)
    steps: Sequence[int | None] = [1] * len(axes) if _input(node, 4) is None else _constant(_input(node, 4)) or unknown
    result = list(data)
    for axis, start, end, step in zip(axes, starts or unknown, ends or unknown, steps, strict=True):
        result[axis] = _sliced(data[axis], start, end, step)
    return [result]


def _sliced(size: Size, start: int | None, end: int | None, step: int | None) -> Size:
    if start is None or end is None or step is None:
        return None
    if start == 0 and step == 1 and end >= _END:
        return size
    if not isinstance(size, int):
        return None
    if step < 0 and start < -size:
        return None  # ONNX and Python do not agree there
    if step < 0 and end < -size:
        return len(range(size)[start::step])
    return len(range(size)[start:end:step])


def _gather(node: ir.Node) -> Sequence[Sizes | None]:
    data, indices = _data(node), sizes(_input(node, 1))
    if data is None or indices is None:
        return [None]
    axis = _integer(node, "axis", 0) % len(data)
    return [[*data[:axis], *indices, *data[axis + 1 :]]]


def _gather_nd(node: ir.Node) -> Sequence[Sizes | None]:
    data, indices = _data(node), sizes(_input(node, 1))
    if data is None or not indices or not isinstance(indices[-1], int):
        return [None]
    return [[*indices[:-1], *data[_integer(node, "batch_dims", 0) + indices[-1] :]]]


def _expand(node: ir.Node) -> Sequence[Sizes | None]:
    return [_broadcast(_data(node), elements(_input(node, 1)))]


def _tile(node: ir.Node) -> Sequence[Sizes | None]:
    data, repeats = _data(node), elements(_input(node, 1))
    if data is None:
        return [None]
    pairs = zip(data, repeats or [None] * len(data), strict=True)
    return [
        [
            size if count == 1 else size * count if isinstance(size, int) and isinstance(count, int) else None
            for size, count in pairs
        ]
    ]


def _pad(node: ir.Node) -> Sequence[Sizes | None]:
    data, pads = _data(node), _integers(node, 1, "pads")
    if data is None:
        return [None]
    axes = _constant(_input(node, 3)) if _input(node, 3) is not None else list(range(len(data)))
    if pads is None or axes is None:
        return [[None] * len(data)]
    result = list(data)
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        size = data[axis]
        result[axis] = size + before + after if isinstance(size, int) else None if before or after else size
    return [result]


def _of_elements(node: ir.Node) -> Sequence[Sizes | None]:
    return [elements(_input(node, 0))]


def _range(node: ir.Node) -> Sequence[Sizes | None]:
    bounds = [_constant(value) for value in node.inputs]
    if any(bound is None for bound in bounds):
        return [[None]]
    (start,), (limit,), (step,) = (bound for bound in bounds if bound is not None)
    return [[len(range(start, limit, step)) if step else None]]


def _reduced(node: ir.Node) -> Sequence[Sizes | None]:
    data, axes = _data(node), _integers(node, 1, "axes")
    if data is None:
        return [None]
    keeps = _integer(node, "keepdims", 1)
    if axes is None and _is_given(node, 1, "axes"):
        return [[None] * len(data) if keeps else None]
    if not axes and _integer(node, "noop_with_empty_axes", 0):
        return [data]
    return [_without(data, axes or list(range(len(data))), keeps)]


def _arg_reduced(node: ir.Node) -> Sequence[Sizes | None]:
    data = _data(node)
    return [None if data is None else _without(data, [_integer(node, "axis", 0)], _integer(node, "keepdims", 1))]


def _without(data: Sizes, axes: Sequence[int], keeps: int) -> Sizes:
    gone = {axis % len(data) for axis in axes} if data else set()
    if keeps:
        return [1 if axis in gone else size for axis, size in enumerate(data)]
    return [size for axis, size in enumerate(data) if axis not in gone]


def _matmul(node: ir.Node) -> Sequence[Sizes | None]:
    left, right = _data(node), sizes(_input(node, 1))
    if not left or not right:
        return [None]
    batch = _broadcast(left[:-2], right[:-2])
    return [None if batch is None else [*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ())]]


def _gemm(node: ir.Node) -> Sequence[Sizes | None]:
    left, right = _data(node), sizes(_input(node, 1))
    rows = None if left is None else left[1 if _integer(node, "transA", 0) else 0]
    columns = None if right is None else right[0 if _integer(node, "transB", 0) else 1]
    return [[rows, columns]]


def _top_k(node: ir.Node) -> Sequence[Sizes | None]:
    data, count = _data(node), _integers(node, 1, "k")
    if data is None:
        return []
    axis = _integer(node, "axis", -1) % len(data)
    return [[*data[:axis], None if count is None else count[0], *data[axis + 1 :]]] * 2


_SAME = """
    Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization Bernoulli BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
    CumSum Elu Erf Exp EyeLike Floor Gelu GroupNormalization Hardmax HardSigmoid HardSwish Identity
    InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization
    MeanVarianceNormalization Mish Neg Not PRelu RMSNormalization RandomNormalLike RandomUniformLike Reciprocal Relu
    Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh
    ThresholdedRelu Trilu
"""

_BROADCASTING = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod
    Mul Or Pow Sub Sum Where Xor
"""

_REDUCING = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
"""

_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_SAME.split(), _same),
    **dict.fromkeys(_BROADCASTING.split(), _elementwise),
    **dict.fromkeys(_REDUCING.split(), _reduced),
    "ArgMax": _arg_reduced,
    "ArgMin": _arg_reduced,
    "Concat": _concat,
    "ConstantOfShape": _of_elements,
    "Dropout": _same_twice,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _like_indices,
    "GatherND": _gather_nd,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _scalar,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
