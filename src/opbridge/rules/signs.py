"""The sign of values, as far as the nodes that give them tell."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from opbridge.rules.looking import LARGEST, readable, stored

__all__ = ["is_never_negative"]

_AS_BEFORE = frozenset(
    {"Cast", "CastLike", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Transpose",
     "Slice", "Gather", "Split", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "Sqrt", "Floor", "Ceil", "Round"}
)  # fmt: skip
"""Operators that give no negative number of an input without."""

_NEVER = frozenset(
    {"Abs", "Relu", "Exp", "Sigmoid", "HardSigmoid", "Softmax", "Softplus", "Shape", "Size", "ReduceL1", "ReduceL2",
     "ReduceSumSquare"}
)  # fmt: skip
"""Operators that give none of any."""

_FARTHEST = 16


def is_never_negative(value: ir.Value | None) -> bool:
    """Whether it is known that no element of a value is below 0."""
    for _ in range(_FARTHEST):
        if value is None:
            return False
        tensor = stored(value)
        if tensor is not None:
            return tensor.size <= LARGEST and _has_no_negative(readable(tensor))
        node = value.producer()
        if node is None or node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type in _NEVER:
            return True
        if node.op_type not in _AS_BEFORE or not node.inputs:
            return False
        value = node.inputs[0]
    return False


def _has_no_negative(array: np.ndarray | None) -> bool:
    return array is not None and array.dtype.kind not in "OSU" and bool((array.astype(np.float64) >= 0).all())
