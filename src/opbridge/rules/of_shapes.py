"""Rules on shapes and types that hold whatever the target: what ONNX does not take, though readers let it pass."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from opbridge.onnx import opsets
from opbridge.onnx.shapes import Size, Sizes, has_rule, infer
from opbridge.rules.looking import Looked, type_name
from opbridge.rules.rule import Hit, NodeRule

__all__ = ["RULES", "types_given"]

_ONNX = ("", "ai.onnx")

_BROADCASTING = frozenset(
    {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
     "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor"}
)  # fmt: skip
_MULTIPLYING = frozenset({"MatMul", "Gemm"})
_CONVOLVING = frozenset({"Conv", "ConvTranspose"})


class ShapeMismatch(NodeRule):
    """Inputs of fixed sizes that do not go together."""

    identifier = "shape-mismatch"
    title = "Inputs of an operator with incompatible shapes"
    why = "No runtime can compute it. A runtime that ignores the shapes in the file loads the model and fails later."
    remedy = "Correct the shapes in the model's code, or export with the shapes that it will run with."
    always = True
    operators = _BROADCASTING | _MULTIPLYING | _CONVOLVING | {"Concat"}

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.domain not in _ONNX:
            return
        shapes = [looked.shape(each) for each in node.inputs if each is not None]
        if node.op_type in _BROADCASTING:
            found = _not_broadcast(shapes)
        elif node.op_type == "Concat":
            axis = looked.attribute(node, "axis")
            found = _not_joined(shapes, axis if isinstance(axis, int) else 0)
        elif node.op_type in _MULTIPLYING:
            found = _not_multiplied(node, looked, shapes)
        else:
            found = _not_convolved(node, looked, shapes)
        if found:
            yield Hit(f"{node.op_type} has inputs of shapes {found}.", node)


def _not_broadcast(shapes: Sequence[Sizes | None]) -> str:
    """Two shapes that do not broadcast, as text; "": all do, as far as they are known."""
    known = [each for each in shapes if each is not None]
    if all(each == known[0] for each in known[1:]):
        return ""
    longest = max((len(each) for each in known), default=0)
    for at in range(1, longest + 1):
        given: dict[int, Sizes] = {}
        for shape in known:
            size = shape[-at] if at <= len(shape) else None
            if isinstance(size, int) and size != 1:
                given.setdefault(size, shape)
        if len(given) > 1:
            return " and ".join(map(_text, list(given.values())[:2]))
    return ""


def _not_joined(shapes: Sequence[Sizes | None], axis: int) -> str:
    known = [each for each in shapes if each is not None]
    for other in known[1:]:
        one = known[0]
        if len(one) != len(other):
            return f"{_text(one)} and {_text(other)}"
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            if at != axis % max(len(one), 1) and _differ(left, right):
                return f"{_text(one)} and {_text(other)}"
    return ""


def _not_multiplied(node: ir.Node, looked: Looked, shapes: Sequence[Sizes | None]) -> str:
    if len(shapes) < 2 or shapes[0] is None or shapes[1] is None or not shapes[0] or not shapes[1]:
        return ""
    left, right = shapes[0], shapes[1]
    inner, outer = left[-1], right[-2] if len(right) > 1 else right[-1]
    if node.op_type == "Gemm":
        if len(left) != 2 or len(right) != 2:
            return ""  # for the rule on ranks
        inner = left[0] if looked.attribute(node, "transA") else left[1]
        outer = right[1] if looked.attribute(node, "transB") else right[0]
    elif not _differ(inner, outer):
        return _not_broadcast([left[:-2], right[:-2]]) and f"{_text(left)} and {_text(right)}"
    return f"{_text(left)} and {_text(right)}" if _differ(inner, outer) else ""


def _not_convolved(node: ir.Node, looked: Looked, shapes: Sequence[Sizes | None]) -> str:
    if len(shapes) < 2 or shapes[0] is None or shapes[1] is None or min(len(shapes[0]), len(shapes[1])) < 3:
        return ""
    data, weight = shapes[0], shapes[1]
    group = looked.attribute(node, "group") or 1
    channels, wanted = data[1], weight[1 if node.op_type == "Conv" else 0]
    if node.op_type == "Conv" and isinstance(wanted, int) and isinstance(group, int):
        wanted *= group
    return f"{_text(data)} and {_text(weight)}" if _differ(channels, wanted) or len(data) != len(weight) else ""


def _differ(one: Size, other: Size) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one != other


@dataclass(frozen=True)
class _Ranks:
    """The numbers of dimensions that ONNX has an input with, in some opsets."""

    at: int
    allowed: tuple[int, ...]
    until: int = 1 << 30


_RANKS = {
    "GridSample": (_Ranks(0, (4,), 19), _Ranks(1, (4,), 19)),
    "Gemm": (_Ranks(0, (2,)), _Ranks(1, (2,))),
    "DepthToSpace": (_Ranks(0, (4,)),),
    "SpaceToDepth": (_Ranks(0, (4,)),),
    "RoiAlign": (_Ranks(0, (4,)), _Ranks(1, (2,))),
    "NonMaxSuppression": (_Ranks(0, (3,)), _Ranks(1, (3,))),
}


class RankNotInOnnx(NodeRule):
    """An input with a number of dimensions that ONNX does not have the operator for."""

    identifier = "rank-not-in-onnx"
    title = "A rank that the operator does not support at the model's opset"
    why = "Runtimes reject the model, because the exporter wrote an operator that is not valid in ONNX."
    remedy = "Use an opset that supports this rank, or reshape the input."
    always = True
    operators = frozenset(_RANKS)

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.domain not in _ONNX:
            return
        opset = looked.opset_of(node)
        for each in _RANKS[node.op_type]:
            shape = looked.shape(node.inputs[each.at]) if each.at < len(node.inputs) else None
            if shape is not None and len(shape) not in each.allowed and opset <= each.until:
                allowed = " or ".join(map(str, each.allowed))
                yield Hit(
                    f"{node.op_type} of opset {opset} has an input of rank {len(shape)}; ONNX supports {allowed}.",
                    node,
                )
                return


_LISTS = {
    **dict.fromkeys(
        ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
         "ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze", "Split", "Reshape", "Expand", "Tile",
         "TopK", "Pad", "ConstantOfShape"],
        (1,),
    ),
    "Slice": (1, 2, 3, 4),
    "Pad": (1, 3),
    "ConstantOfShape": (0,),
}  # fmt: skip


class ScalarAxes(NodeRule):
    """Axes, sizes or bounds that are one number without a dimension."""

    identifier = "scalar-axes"
    title = "Axes or sizes given as a scalar instead of a one-dimensional tensor"
    why = "Some runtimes read the scalar as a list of one element; others reject the model or treat it as empty."
    remedy = "Use a one-dimensional tensor with one element."
    severity = "warning"
    always = True
    operators = frozenset(_LISTS)

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.domain not in _ONNX:
            return
        for at in _LISTS[node.op_type]:
            value = node.inputs[at] if at < len(node.inputs) else None
            if value is not None and looked.shape(value) == []:
                yield Hit(f"{node.op_type} has a scalar for its input {at + 1}, '{value.name}'.", node)
                return


class FrozenSize(NodeRule):
    """A Reshape to fixed sizes of a tensor with a dynamic dimension."""

    identifier = "frozen-size"
    title = "A Reshape to fixed sizes of a tensor with a dynamic dimension"
    why = (
        "The model runs only with the sizes of the example, although its inputs are dynamic: a size became a constant."
    )
    remedy = "Compute the size from the tensor's shape (x.shape[0]) in the model's code, or use -1."
    severity = "warning"
    always = True
    operators = frozenset({"Reshape"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.domain not in _ONNX or len(node.inputs) < 2:
            return
        data, wanted = looked.shape(node.inputs[0]), looked.constant(node.inputs[1])
        if data is None or wanted is None or not wanted.size or wanted.min() < 1:
            return
        # Other names are those that exporters give to sizes that they do not know.
        of_inputs = {size for each in looked.model.graph.inputs for size in looked.shape(each) or ()}
        dynamic = [each for each in data if not isinstance(each, int)]
        if dynamic and all(isinstance(each, str) and each in of_inputs for each in dynamic):
            yield Hit(f"Reshape changes {_text(data)} to the fixed shape {wanted.ravel().tolist()}.", node)


class DeclaredShape(NodeRule):
    """A shape that the file says, and the operator does not give."""

    identifier = "declared-shape"
    title = "A shape in the file that differs from the operator's output"
    why = (
        "Runtimes allocate memory for the shapes in the file: they reject the model, or use buffers that are too small."
    )
    remedy = "Remove the shapes of intermediate values (value_info) and run shape inference again."
    always = True

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node not in looked.said or not has_rule(node):
            return
        for value, given in zip(node.outputs, infer(node, looked.opset_of(node)), strict=True):
            said = looked.shape(value)
            if said is None or given is None:
                continue
            if len(said) != len(given) or any(_differ(one, two) for one, two in zip(said, given, strict=True)):
                yield Hit(
                    f"The shape of '{value.name}' in the file is {_text(said)}, but {node.op_type} returns "
                    f"{_text(given)}.",
                    node,
                )


class DeclaredType(NodeRule):
    """A type that the file says, and the operator does not give."""

    identifier = "declared-type"
    title = "A type in the file that differs from the operator's output"
    why = "ONNX Runtime rejects such a model. Converters to float16 produce it from a Cast to float32."
    remedy = "Correct the type in the file, or the Cast (its attribute 'to')."
    always = True

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.domain not in _ONNX or node not in looked.said:
            return
        for value, given in zip(node.outputs, types_given(node, looked), strict=False):
            if given is not None and isinstance(value.type, ir.TensorType) and value.type.dtype != given:
                said = type_name(value.type.dtype)
                yield Hit(
                    f"The type of '{value.name}' in the file is {said}, but {node.op_type} returns {type_name(given)}.",
                    node,
                )


def types_given(node: ir.Node, looked: Looked) -> Sequence[ir.DataType | None]:
    """The element types that a node gives, as far as they follow from those of its inputs."""
    if node.op_type == "Cast":
        to = node.attributes.get("to")
        return [] if to is None or to.is_ref() else [ir.DataType(to.as_int())]
    return _of_types(node.op_type, looked.opset_of(node), looked.types_of_inputs(node))


# A model has many nodes of few forms.
@functools.lru_cache(maxsize=4096)
def _of_types(op_type: str, opset: int, types: tuple[ir.DataType | None, ...]) -> tuple[ir.DataType | None, ...]:
    schema = opsets.native_schema(op_type, opset)
    if schema is None or not schema.inputs:
        return ()
    known: dict[str, set[ir.DataType | None]] = {}
    for position, dtype in enumerate(types):
        if schema.homogeneous(position) and dtype is not None:
            known.setdefault(schema.type_variable(position), set()).add(dtype)
    found = []
    for output in schema.outputs:
        given = known.get(output.type_constraint.name, set())
        is_tensor = all(isinstance(each, ir.TensorType) for each in output.type_constraint.allowed_types)
        found.append(next(iter(given)) if len(given) == 1 and is_tensor else None)
    return tuple(found)


class ScalarEllipsis(NodeRule):
    """An Einsum with an ellipsis that stands for no dimension of one input and for some of another."""

    identifier = "scalar-ellipsis"
    title = "An Einsum whose ellipsis has different ranks in its inputs"
    why = "ONNX's shape inference crashes at such a node (onnx/onnx, issue 8207)."
    remedy = "Give the inputs the same rank, or use MatMul instead of Einsum."
    severity = "warning"
    always = True
    operators = frozenset({"Einsum"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        equation = looked.attribute(node, "equation")
        if not isinstance(equation, str):
            return
        ranks = set()
        for term, value in zip(equation.partition("->")[0].split(","), node.inputs, strict=False):
            shape = looked.shape(value)
            if "..." in term and shape is not None:
                ranks.add(len(shape) - len(term.replace("...", "").replace(" ", "")))
        if len(ranks) > 1 and min(ranks) == 0:
            yield Hit(
                f"The ellipsis of '{equation}' represents {' and '.join(map(str, sorted(ranks)))} dimensions.", node
            )


def _text(shape: Sequence[Size]) -> str:
    return f"[{', '.join('?' if each is None else str(each) for each in shape)}]"


RULES: tuple[type[NodeRule], ...] = (
    ShapeMismatch,
    RankNotInOnnx,
    ScalarAxes,
    FrozenSize,
    DeclaredShape,
    DeclaredType,
    ScalarEllipsis,
)
