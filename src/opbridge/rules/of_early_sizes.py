"""Sizes that a target computes before it runs the model, from the values of inputs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from opbridge.rules.looking import Looked
from opbridge.rules.rule import Hit, NodeRule
from opbridge.rules.size_inputs import SIZE_INPUTS, size_inputs

__all__ = ["RULES", "SIZES", "is_computable_early", "is_of_late_values", "is_of_values"]

SIZES = {**SIZE_INPUTS, "Split": (1,), "TopK": (1,)}
"""By the operator, the inputs that TensorRT-RTX 1.7.1 was seen to compute before the run."""

_FARTHEST = 256

_EARLY = frozenset(
    {"Abs", "Add", "And", "BatchNormalization", "Cast", "CastLike", "Ceil", "Clip", "Concat", "Cos", "DepthToSpace",
     "Div", "Elu", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gelu",
     "Gemm", "GlobalAveragePool", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf",
     "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "LpNormalization", "MatMul", "Max", "Min", "Mish", "Mod",
     "Mul", "Neg", "Not", "OneHot", "Or", "Pad", "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSumExp",
     "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Round",
     "Selu", "Sigmoid", "Sign", "Sin", "Slice", "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Tanh",
     "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor"}
)  # fmt: skip
"""The operators that TensorRT-RTX 1.7.1 was seen to compute before the run where a size depends on them. What it
computes on the GPU in any case (ArgMax, TopK, Conv, Softmax, ScatterND, ...) may read anything."""

_WHOLE = (ir.DataType.INT32, ir.DataType.INT64)

_SELECTIONS = ("Where", "Trilu")
"""The early operators that are selections of elements in TensorRT-RTX, which computes them in vectors alone."""


class SizeOfFloats(NodeRule):
    """A size that is computed from the values of a floating-point input, by operators that run before the others."""

    identifier = "size-of-floats"
    title = "A size computed from the values of an input that is not int32 or int64"
    why = (
        "The target computes such a size before it runs the model, unless an operator in between runs on the GPU "
        "in any case; all inputs that it reads must be int32 or int64."
    )
    remedy = "Compute the size from a shape, or pass it to the model as an int64 input."
    operators = frozenset(SIZES)

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for value in size_inputs(node, SIZES):
            if (found := _unreadable_input(value, looked)) is not None:
                yield Hit(f"The size input of {node.op_type} is computed from the values of the input '{found}'.", node)
                return


class SizeOfSelection(NodeRule):
    """A size that is computed with a selection in two or more dimensions, before the other operators run."""

    identifier = "size-of-selection"
    title = "A size computed with a Where in two or more dimensions"
    why = (
        "The target computes such a size before it runs the model, and evaluates a selection of elements in scalars "
        "and vectors only."
    )
    remedy = "Compute the size in one dimension (torch.where for each column), or from a shape."
    operators = frozenset(SIZES)

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for value in size_inputs(node, SIZES):
            if (found := _selection(value, looked)) is not None:
                rank = len(looked.shape(found.outputs[0]) or ())
                yield Hit(
                    f"The size input of {node.op_type} is computed with a {found.op_type} in {rank} dimensions.", node
                )
                return


def is_computable_early(value: ir.Value, looked: Looked) -> bool:
    """Whether the target computes a size that is read from values before the run, or need not."""
    return _unreadable_input(value, looked) is None and _selection(value, looked) is None


def _unreadable_input(value: ir.Value, looked: Looked) -> str | None:
    """The name of the input of the model, neither int32 nor int64, that a size is computed from before the run."""
    for each in _computed_early_from(value, looked):
        if each.is_graph_input() and each.dtype is not None and each.dtype not in _WHOLE:
            return each.name
    return None


def _selection(value: ir.Value, looked: Looked) -> ir.Node | None:
    """A selection in two or more dimensions that a size is computed with before the run."""
    for each in _computed_early_from(value, looked):
        producer = each.producer()
        if producer is not None and producer.domain in ("", "ai.onnx") and producer.op_type in _SELECTIONS:
            if len(looked.shape(each) or ()) > 1:
                return producer
    return None


def is_of_values(value: ir.Value, looked: Looked) -> bool:
    """Whether a size is computed from the values of tensors, and not from constants and shapes alone."""
    return any(each.producer() is None or _is_late(each) for each in _computed_early_from(value, looked))


def is_of_late_values(value: ir.Value, looked: Looked) -> bool:
    """Whether a size is computed from values that the model computes, and not from inputs and shapes alone."""
    return any(_is_late(each) for each in _computed_early_from(value, looked))


def _is_late(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and not (_is_early(producer) or producer.op_type in ("Shape", "Size"))


def _computed_early_from(value: ir.Value, looked: Looked) -> Iterator[ir.Value]:
    """A value, and those that operators which run before the others compute it from, without constants."""
    waiting = [value]
    seen: set[ir.Value] = set()
    while waiting and len(seen) < _FARTHEST:
        current = waiting.pop()
        if current in seen or looked.is_known(current):
            continue
        seen.add(current)
        yield current
        producer = current.producer()
        if producer is not None and _is_early(producer):
            waiting.extend(each for each in producer.inputs if each is not None)


def _is_early(node: ir.Node) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in _EARLY


RULES: tuple[type[NodeRule], ...] = (SizeOfFloats, SizeOfSelection)
