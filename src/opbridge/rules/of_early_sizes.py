"""Sizes that a target computes before it runs the model, from the values of inputs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from opbridge.rules.looking import Looked
from opbridge.rules.rule import Hit, NodeRule
from opbridge.rules.size_inputs import SIZE_INPUTS, size_inputs

__all__ = ["RULES", "SIZES", "is_of_values", "source"]

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
            if (found := source(value, looked)) is not None:
                yield Hit(f"The size input of {node.op_type} is computed from the values of the input '{found}'.", node)
                return


def source(value: ir.Value, looked: Looked) -> str | None:
    """The name of the input of the model, neither int32 nor int64, that a size is computed from before the run."""
    for each in _computed_early_from(value, looked):
        if each.is_graph_input() and each.dtype is not None and each.dtype not in _WHOLE:
            return each.name
    return None


def is_of_values(value: ir.Value, looked: Looked) -> bool:
    """Whether a size is computed from the values of tensors, and not from constants and shapes alone."""
    return any(
        (producer := each.producer()) is None or not (_is_early(producer) or producer.op_type in ("Shape", "Size"))
        for each in _computed_early_from(value, looked)
    )


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


RULES: tuple[type[NodeRule], ...] = (SizeOfFloats,)
