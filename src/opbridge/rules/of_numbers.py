"""Rules on numbers that a type does not hold: of float16 constants and sums of squares, of float32 large integers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from opbridge.rules.looking import Looked
from opbridge.rules.rule import Hit, NodeRule

__all__ = ["LARGEST_FLOAT16", "PATTERNS", "RULES"]

LARGEST_FLOAT16 = 65504.0


class Float16Constant(NodeRule):
    """A constant that is cast to float16, which does not hold it."""

    identifier = "float16-constant"
    title = "A constant outside of the float16 range"
    why = "It becomes infinity; a softmax or a sum over such a mask returns NaN."
    remedy = "Use a number from -65504 to 65504, for example torch.finfo(torch.float16).min for a mask."
    severity = "warning"
    always = True
    operators = frozenset({"Cast"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if looked.attribute(node, "to") != int(ir.DataType.FLOAT16) or not node.inputs:
            return
        found = looked.constant(node.inputs[0])
        if found is None or found.dtype not in (np.float32, np.float64) or not found.size:
            return
        finite = found[np.isfinite(found)]
        if finite.size and np.abs(finite).max() > LARGEST_FLOAT16:
            largest = finite[np.abs(finite).argmax()]
            yield Hit(f"Cast converts the constant {largest:g} to float16, whose maximum is {LARGEST_FLOAT16:g}.", node)


_SUMMING = frozenset({"ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2"})


class Float16Squares(NodeRule):
    """Squares that are summed in float16."""

    identifier = "float16-squares"
    title = "Squares that are computed and summed in float16"
    why = "The square of 256 is infinity in float16, so such a normalization returns 0 or NaN."
    remedy = "Compute the normalization in float32: cast before the square and back after the square root."
    severity = "warning"
    always = True
    operators = _SUMMING

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        value = node.inputs[0] if node.inputs else None
        if value is None or value.dtype != ir.DataType.FLOAT16:
            return
        if node.op_type in ("ReduceSumSquare", "ReduceL2") or squares(value, looked):
            yield Hit(f"{node.op_type} sums squares in float16.", node)


def squares(value: ir.Value, looked: Looked) -> bool:
    """Whether a value is the squares of another one."""
    producer = value.producer()
    if producer is None or producer in looked.malformed:
        return False
    if producer.op_type == "Mul":
        return producer.inputs[0] is producer.inputs[1]
    if producer.op_type != "Pow":
        return False
    exponent = looked.constant(producer.inputs[1])
    return exponent is not None and exponent.size == 1 and float(exponent.ravel()[0]) == 2.0


class LargeInteger(NodeRule):
    """An integer that float32 does not hold, read by an operator that the target computes in float32."""

    identifier = "large-integer"
    title = "An integer beyond 2^24 where the target computes in float32"
    why = "float32 does not hold all integers beyond 2^24, so the target computes with another integer."
    remedy = "Use integers up to 2^24 here, or run this part of the model elsewhere."
    severity = "warning"
    operators = frozenset(
        {"Clip", "Div", "Einsum", "Equal", "Gemm", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul", "Mod"}
        | {"Pow", "ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare", "Relu", "Resize"}
        | {"ReverseSequence"}
    )

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for value in node.inputs:
            found = None if value is None else looked.constant(value)
            if found is None or found.dtype.kind not in "iu" or not found.size:
                continue
            lost = found[found.astype(np.float32).astype(np.float64) != found.astype(np.float64)]
            if lost.size:
                yield Hit(f"{node.op_type} reads the constant {int(lost.reshape(-1)[0])}.", node)
                return


RULES: tuple[type[NodeRule], ...] = (Float16Constant, Float16Squares)

PATTERNS: tuple[type[NodeRule], ...] = (LargeInteger,)
"""Rules of the targets whose facts name them."""
