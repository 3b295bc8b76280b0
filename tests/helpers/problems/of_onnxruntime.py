"""Problems that people reported of ONNX Runtime, of exporters for it, and of ONNX's own tools."""

from __future__ import annotations

import numpy as np
import onnx

from helpers.problems.problem import Problem, model

__all__ = ["PROBLEMS"]

I64, F32, F16 = np.int64, np.float32, np.float16
FLOAT, HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16

_ENCODER = "(string[n] x) => (int64[n] y) { y = ai.onnx.ml.LabelEncoder <KEYS, values_int64s = [1, 2]> (x) }"


def _encoder(keys: str) -> onnx.ModelProto:
    made = model(_ENCODER.replace("KEYS, ", ""), domain="ai.onnx.ml")
    made.opset_import[1].version = 4
    node = made.graph.node[0]
    del node.attribute[:]
    node.attribute.append(onnx.helper.make_attribute("values_int64s", [1, 2]))
    if keys == "keys_strings":
        node.attribute.append(onnx.helper.make_attribute(keys, ["a", "b"]))
    else:
        tensor = onnx.helper.make_tensor("keys", onnx.TensorProto.STRING, [2], [b"a", b"b"])
        node.attribute.append(onnx.helper.make_attribute(keys, tensor))
        del node.attribute[0]
        values = onnx.helper.make_tensor("values", onnx.TensorProto.INT64, [2], [1, 2])
        node.attribute.append(onnx.helper.make_attribute("values_tensor", values))
    return made


def _clashing() -> onnx.ModelProto:
    made = model("(float[n] x) => (float[n] add) { a = Relu (x) b = Add (a, x) c = Neg (b) add = Abs (c) }")
    made.graph.node[1].output[0] = made.graph.node[2].input[0] = "add"
    return made


_FOLDED = "(float[2, 3] x) => (float[2, 3] y) { w = Reshape (c, s) y = Add (x, w) }"
_ADDED = "(float[1, 2, 4, 4] x, float[2, 2, 1, 1] w) => (float[1, 2, 4, 4] y) { a = Conv (x, w) y = Add (a, x) }"
_SAMPLED = (
    "(float[1, 1, 2, 3, 4] x, float[1, 2, 2, 2, 3] g) => (float[1, 1, 2, 2, 2] y) {{ y = GridSample <mode ="
    ' "{mode}"> (x, g) }}'
)
_FROZEN = "(float[n, 4] x) => (float[m, 2, 2] y) { r = Relu (x) y = Reshape (r, s) }"
_ELLIPSES = '({one} x, float[2, 3] z) => (float[2, 3] y) {{ y = Einsum <equation = "...,...->..."> (x, z) }}'
_DIVIDED = (
    "({type}[n] x) => ({type}[n] y) {{ k = Constant <{value}> () z = Cast <to = {to}> (k) d = Div (x, z) y ="
    " Floor (d) }}"
)
_SELECTED = "(bool[n] c, float[n] x, float[n] z) => (float[n] y) { y = Where (c, x, z) }"
_ROTATED = "(float16[n, 4] x) => (float16[n, 4] y) { a = Transpose (x) b = Relu (a) y = Transpose (b) }"

PROBLEMS = (
    Problem(
        "R2", "a Reshape of constants", "onnxruntime:1.24.1", "unfolded",
        model(_FOLDED, constants={"c": np.arange(6, dtype=F32), "s": I64([2, 3])}),
        (model("(float[2, 3] x) => (float[2, 3] y) { r = Reshape (x, s) y = Add (r, w) }",
               constants={"w": np.ones((2, 3), F32), "s": I64([2, 3])}),),
        repairable=True, kind="fault",
    ),
    Problem(
        "R4", "a tensor of strings for an attribute", "onnxruntime:1.25.1", "text-attribute",
        _encoder("keys_tensor"), (_encoder("keys_strings"),), kind="fault",
    ),
    Problem(
        "R6", "Conv and Add in a row", "onnxruntime:1.13.1", "faulty-chain",
        model(_ADDED),
        (model("(float[1, 2, 4, 4] x, float[2, 2, 1, 1] w) => (float[1, 2, 4, 4] y) { a = Conv (x, w) y = Mul"
               " (a, x) }"),),
        kind="fault",
    ),
    Problem(
        "R9", "Add of bfloat16", "onnxruntime", "no-kernel",
        model("(bfloat16[n] x, bfloat16[n] z) => (bfloat16[n] y) { y = Add (x, z) }"),
        (model("(bfloat16[n] x, bfloat16[n] z) => (bfloat16[n] y) { a = Cast <to = 1> (x) b = Cast <to = 1> (z)"
               " c = Add (a, b)"
               " y = Cast <to = 16> (c) }"),),
        repairable=True,
    ),
    Problem(
        "R11", "a file of a newer IR version", "onnxruntime:1.17", "opset-range",
        model("(float[n] x) => (float[n] y) { y = Relu (x) }", ir_version=10),
        (model("(float[n] x) => (float[n] y) { y = Relu (x) }", ir_version=9),),
        repairable=True,
    ),
    Problem(
        "R12", "an opset that the release does not have", "onnxruntime:1.16", "opset-range",
        model("(float[n] x) => (float[n] y) { y = Relu (x) }", opset=21, ir_version=9),
        (model("(float[n] x) => (float[n] y) { y = Relu (x) }", opset=19, ir_version=9),),
        repairable=True,
    ),
    Problem(
        "R15", "a shape in the file of another rank than the operator gives", "onnxruntime", "declared-shape",
        model("(float[2, 3] x, float[3, 4] w) => (float[2, 4] y) { a = Gemm (x, w) y = Gemm (a, u) }",
              constants={"u": np.eye(4, dtype=F32)}, shapes={"a": (FLOAT, [1, 2, 4])}),
        (model("(float[2, 3] x, float[3, 4] w) => (float[2, 4] y) { a = Gemm (x, w) y = Gemm (a, u) }",
               constants={"u": np.eye(4, dtype=F32)}, shapes={"a": (FLOAT, [2, 4])}),),
        repairable=True, kind="model",
    ),
    Problem(
        "R16", "a Cast to float32 whose output is said to be float16", "onnxruntime", "declared-type",
        model("(float16[n] x) => (float16[n] y) { a = Cast <to = 1> (x) y = Cast <to = 10> (a) }",
              shapes={"a": (HALF, ["n"])}),
        (model("(float16[n] x) => (float16[n] y) { a = Cast <to = 1> (x) y = Cast <to = 10> (a) }",
               shapes={"a": (FLOAT, ["n"])}),),
        repairable=True, kind="model",
    ),
    Problem(
        "R18", "sizes in the file that are not those of the operators", "onnxruntime", "declared-shape",
        model(_ROTATED, shapes={"a": (HALF, [4, "n"]), "b": (HALF, [2, "n"])}),
        (model(_ROTATED, shapes={"a": (HALF, [4, "n"]), "b": (HALF, [4, "n"])}),),
        repairable=True, kind="model",
    ),
    Problem(
        "R19", "Floor of integers", "onnxruntime", "type-not-in-onnx",
        model(_DIVIDED.format(type="int64", value="value_int = 2", to=7)),
        (model(_DIVIDED.format(type="float", value="value_float = 2.0", to=1)),), repairable=True, kind="model",
    ),
    Problem(
        "R20", "an output that has the name of an inner value", "onnxruntime", "clashing-names",
        _clashing(),
        (model("(float[n] x) => (float[n] y) { a = Relu (x) b = Add (a, x) c = Neg (b) y = Abs (c) }"),),
        repairable=True, kind="model",
    ),
    Problem(
        "R22", "GridSample of three dimensions at opset 16", "onnxruntime", "rank-not-in-onnx",
        model(_SAMPLED.format(mode="bilinear"), opset=16),
        (model(_SAMPLED.format(mode="linear"), opset=20, ir_version=9),),
        repairable=True, kind="model",
    ),
    Problem(
        "R24", "an ellipsis of Einsum for no dimension and for two", "onnxruntime", "scalar-ellipsis",
        model(_ELLIPSES.format(one="float")), (model(_ELLIPSES.format(one="float[2, 3]")),), kind="model",
    ),
    Problem(
        "R27", "Where and ScatterND of opset 16 for an older one", "onnx:15", "opset-range",
        model(_SELECTED, opset=16), (model(_SELECTED, opset=15),), repairable=True,
    ),
    Problem(
        "R28", "a batch size that was frozen", "onnxruntime", "frozen-size",
        model(_FROZEN, constants={"s": I64([3, 2, 2])}), (model(_FROZEN, constants={"s": I64([-1, 2, 2])}),),
        kind="model",
    ),
)  # fmt: skip
