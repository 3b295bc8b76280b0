"""A call in a wider type, where that gives the same results as its own."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from opbridge.conversion import schemas
from opbridge.conversion.step import Step
from opbridge.conversion.types import type_text

__all__ = ["HALVES", "holding", "is_exact", "widened"]

_D = ir.DataType

# The types that hold every value of another, the nearest first.
_WIDER = {
    _D.BOOL: (_D.UINT8, _D.INT32, _D.INT64, _D.FLOAT),
    _D.INT8: (_D.INT16, _D.INT32, _D.INT64, _D.FLOAT16, _D.FLOAT, _D.DOUBLE),
    _D.UINT8: (_D.UINT16, _D.INT32, _D.UINT32, _D.INT64, _D.FLOAT16, _D.FLOAT, _D.DOUBLE),
    _D.INT16: (_D.INT32, _D.INT64, _D.FLOAT, _D.DOUBLE),
    _D.UINT16: (_D.UINT32, _D.INT32, _D.INT64, _D.FLOAT, _D.DOUBLE),
    _D.INT32: (_D.INT64, _D.DOUBLE),
    _D.UINT32: (_D.UINT64, _D.INT64, _D.DOUBLE),
    _D.FLOAT16: (_D.FLOAT, _D.DOUBLE),
    _D.BFLOAT16: (_D.FLOAT, _D.DOUBLE),
    _D.FLOAT: (_D.DOUBLE,),
}

# They move and choose elements, or compare them.
_CHOOSING = frozenset(
    {"Abs", "ArgMax", "ArgMin", "Clip", "Compress", "Concat", "DepthToSpace", "Equal", "Expand", "Flatten", "Gather"}
    | {"GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual"}
    | {"Max", "MaxPool", "Min", "Neg", "NonZero", "OneHot", "Pad", "PRelu", "ReduceMax", "ReduceMin", "Relu"}
    | {"Reshape", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Sign", "Slice", "SpaceToDepth"}
    | {"Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Where", "LeakyRelu"}
)

# Their result, rounded or wrapped to the narrower type, is the one of that type.
_ROUNDED = frozenset({"Add", "Sub", "Mul", "Div", "Sqrt"})
_WRAPPED = frozenset({"Add", "Sub", "Mul", "Div", "Mod"})
_INTEGERS = frozenset({_D.INT8, _D.UINT8, _D.INT16, _D.UINT16, _D.INT32, _D.UINT32, _D.INT64, _D.UINT64})
HALVES = frozenset({_D.FLOAT16, _D.BFLOAT16})

# Of float16 and bfloat16, PyTorch and runtimes compute them in float32 and round the result once.
_IN_FLOAT32 = frozenset(
    {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "BatchNormalization", "Celu", "Conv", "Cos"}
    | {
        "ConvTranspose",
        "Cosh",
        "CumSum",
        "Elu",
        "Erf",
        "Exp",
        "Gelu",
        "Gemm",
        "GlobalAveragePool",
        "GroupNormalization",
    }
    | {"HardSigmoid", "HardSwish", "InstanceNormalization", "LayerNormalization", "Log", "LogSoftmax", "LRN", "MatMul"}
    | {"Mish", "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "Selu"}
    | {"ReduceSumSquare", "Resize", "RMSNormalization", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Softsign"}
    | {"Sum", "Tan", "Tanh", "ThresholdedRelu"}
)


def widened(step: Step, target: onnx.defs.OpSchema) -> tuple[list[ir.Value], str] | None:
    """The values of the call in a wider type, with what to say of it; None where there is none.

    Args:
        step: The node, of which a value has a type that the form does not take.
        target: The form.
    """
    node, types = step.node, step.types
    variables: dict[str, _D] = {}
    for values, parameters in ((node.inputs, target.inputs), (node.outputs, target.outputs)):
        for at, value in enumerate(values):
            text, dtype = types.text(value), types.dtype(value)
            parameter = schemas.type_of_value(target, parameters, at)
            if value is None or text is None or text in schemas.permitted(target, parameter):
                continue
            wider = None if dtype is None else _wider(dtype, schemas.permitted(target, parameter))
            if dtype is None or wider is None or not is_exact(node.op_type, dtype, wider):
                return None
            variables[parameter.type_str] = wider
    if not variables:
        return None
    given: list[ir.Value | None] = []
    for at, value in enumerate(node.inputs):
        wider = variables.get(schemas.type_of_value(target, target.inputs, at).type_str)
        given.append(value if value is None or wider is None else step.cast(value, wider))
    attributes = {name: each.value for name, each in node.attributes.items() if name in target.attributes}
    count = min(len(node.outputs), target.max_output)
    found = step.emit(node.op_type, *given, outputs=count, **attributes)
    results = []
    for at, value in enumerate([found] if count == 1 else found):
        dtype = types.dtype(node.outputs[at])
        wide = schemas.type_of_value(target, target.outputs, at).type_str in variables
        results.append(step.emit("Cast", value, to=int(dtype)) if wide and dtype is not None else value)
    return results, f"computed in {next(iter(variables.values())).name.lower()}"


def is_exact(operator: str, dtype: _D, wide: _D) -> bool:
    """Whether an operator that computes in a wider type gives its own results, once they are cast back.

    Of integers, a result beyond the narrower type is wrapped by a Cast from integers only.
    """
    if operator in _WRAPPED and dtype in _INTEGERS:
        return wide in _INTEGERS
    if operator in _CHOOSING:
        return True
    return operator in _ROUNDED | _IN_FLOAT32 and dtype in HALVES


def holding(dtype: _D) -> tuple[_D, ...]:
    """The types that hold every value of another, the nearest first."""
    return _WIDER.get(dtype, ())


def _wider(dtype: _D, permitted: frozenset[str]) -> _D | None:
    for each in _WIDER.get(dtype, ()):
        if type_text(onnx.helper.make_tensor_type_proto(int(each), None)) in permitted:
            return each
    return None
