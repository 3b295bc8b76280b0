"""Problems that people reported of runtimes in the browser and on phones."""

from __future__ import annotations

import numpy as np

from helpers.problems.problem import Problem, model

__all__ = ["PROBLEMS"]

F32 = np.float32

_JOINED = "(float[1, 4, 8] x, float[1, 4, {size}] z) => (float[1, 4, 8] y) {{ a = Relu (x) y = Add (a, z) }}"
_CONVOLVED = "(float[2, {channels}, 79] x) => (float[2, 192, 77] y) {{ a = Relu (x) y = Conv (a, w) }}"
_FIRST = "(float[1, {channels}, 8, 8] x) => (float[1, 4, 6, 6] y) {{ y = Conv (x, w) }}"

PROBLEMS = (
    Problem(
        "W2", "Add of sizes that do not go together", "webgpu", "shape-mismatch",
        model(_JOINED.format(size=9)), (model(_JOINED.format(size=1)),), kind="model",
    ),
    Problem(
        "W4", "Conv whose input has other channels than its weights", "webgpu", "shape-mismatch",
        model(_CONVOLVED.format(channels=1), constants={"w": np.ones((192, 768, 3), F32)}),
        (model(_CONVOLVED.format(channels=768), constants={"w": np.ones((192, 768, 3), F32)}),), kind="model",
    ),
    Problem(
        "W6", "a first Conv of more than three channels", "webgpu-native:1.27", "first-convolution",
        model(_FIRST.format(channels=9), constants={"w": np.ones((4, 9, 3, 3), F32)}),
        (model(_FIRST.format(channels=3), constants={"w": np.ones((4, 3, 3, 3), F32)}),), kind="fault",
    ),
    Problem(
        "W8", "QMoE", "webgpu-native:1.24", "partly-supported",
        model(
            "(float[2, 16] x, float[2, 2] r, uint8[2, 32, 8] w, float[2, 32] s, uint8[2, 16, 16] v, float[2, 16]"
            " t) =>"
            " (float[2, 16] y) { y = com.microsoft.QMoE <expert_weight_bits = 4, k = 1> (x, r, w, s, , v, t) }",
            domain="com.microsoft",
        ),
        (model("(float[2, 16] x, float[16, 4] w) => (float[2, 4] y) { y = MatMul (x, w) }", opset=13),), kind="fault",
    ),
    Problem(
        "Q1", "a dynamic input", "qnn", "dynamic-inputs",
        model("(float[n, 4] x) => (float[n, 4] y) { y = Relu (x) }"),
        (model("(float[2, 4] x) => (float[2, 4] y) { y = Relu (x) }"),),
    ),
    Problem(
        "Q3", "a dynamic size that is taken for 1", "qnn:2.0", "dynamic-inputs",
        model("(float[1, 3, h, w] x) => (float[1, 3, h, w] y) { y = Sigmoid (x) }"),
        (model("(float[1, 3, 8, 8] x) => (float[1, 3, 8, 8] y) { y = Sigmoid (x) }"),),
    ),
)  # fmt: skip
