"""Reports of OpenVINO."""

from __future__ import annotations

import numpy as np

from reported.report import Report as R

__all__ = ["REPORTS"]

F32, I64 = np.float32, np.int64
OV = "openvinotoolkit/openvino"

_X = "(float[2, 4] x) => (float[2, 4] y)"
_AB = "(float[4] a, float[4] b) => (float[4] y)"
_LOOP = (
    "(int64 n, float[2] x) => (float[2] y, float[2] z) {{ y, z = Loop (n, , {first}, x) <body = b (int64 i, bool c,"
    " float[2] {name}, float[2] k) => (bool d, float[2] p, float[2] {passed}) {{ d = Identity (c) p = Add ({name}, k)"
    " {more} }}> }}"
)
_BRANCH = (
    "(bool c, float[2] x) => (float[2] y) {{ y = If (c) <then_branch = t () => (float[2] a) {then},"
    " else_branch = e () => (float[2] b) {{ b = Relu (x) }}> }}"
)

REPORTS = (
    R(
        f"{OV}#36694", "2026-07", "RMSNormalization", "openvino:2026.2",
        "(float[b, s, 8] x, float[8] w) => (float[b, s, 8] y) { y = RMSNormalization (x, w) }",
        "(float[b, s, 8] x, float[8] w) => (float[b, s, 8] y) { y = LayerNormalization (x, w) }",
        24,
    ),
    R(
        f"{OV}#36694", "2026-07", "RotaryEmbedding", "openvino:2026.2",
        "(float[b, 2, s, 8] x, float[b, s, 4] c, float[b, s, 4] n) => (float[b, 2, s, 8] y)"
        " { y = RotaryEmbedding (x, c, n) }",
        "(float[b, 2, s, 8] x, float[b, 1, s, 8] c) => (float[b, 2, s, 8] y) { y = Mul (x, c) }",
        24,
    ),
    R(
        f"{OV}#36695", "2026-07", "LinearAttention of opset 27", "openvino:2026.2",
        "(float[1, 4, 16] q, float[1, 4, 16] k, float[1, 4, 16] v) => (float[1, 4, 16] y, float[1, 2, 8, 8] z)"
        ' { y, z = LinearAttention <q_num_heads = 2, kv_num_heads = 2, update_rule = "linear"> (q, k, v) }',
        "(float[1, 4, 16] q, float[1, 16, 4] k) => (float[1, 4, 4] y) { y = MatMul (q, k) }",
        27,
    ),
    R(
        f"{OV}#36695", "2026-07", "CausalConvWithState of opset 27", "openvino:2026.2",
        "(float[1, 4, 8] x, float[4, 1, 3] w) => (float[1, 4, 8] y, float[1, 4, 2] z)"
        " { y, z = CausalConvWithState (x, w) }",
        "(float[1, 4, 8] x, float[4, 1, 3] w) => (float[1, 4, 6] y) { y = Conv <group = 4> (x, w) }",
        27, 22,
    ),
    R(
        f"{OV}#35874", "2026-05", "a Loop that passes a value through", "openvino:2026.1",
        _LOOP.format(first="x", name="s", passed="k", more=""),
        _LOOP.format(first="x", name="s", passed="q", more="q = Neg (k)"),
        14,
    ),
    R(
        f"{OV} PR#35909", "2026-05", "a value of a Loop's body with the name of one outside", "openvino:2026.1",
        _LOOP.format(first="x", name="s", passed="q", more="q = Neg (k)").replace("float[2] k)", "float[2] x)").replace(
            ", k)", ", x)"
        ).replace("(k)", "(x)"),
        _LOOP.format(first="x", name="s", passed="q", more="q = Neg (k)"),
        14,
    ),
    R(
        f"{OV}#37990", "2026-09", "Einsum of a segmentation head", "openvino:2026.0",
        "(float[1, 5, 8] q, float[1, 8, 4, 4] m) => (float[1, 5, 4, 4] y)"
        ' { y = Einsum <equation = "bqc,bchw->bqhw"> (q, m) }',
        "(float[1, 5, 8] q, float[1, 8, 16] m) => (float[1, 5, 16] y) { y = MatMul (q, m) }",
    ),
    R(
        f"{OV}#36234", "2026-06", "ReduceLogSumExp of NaN gives infinity", "openvino:2026.1",
        "(float[6] x) => (float y) { y = ReduceLogSumExp <keepdims = 0> (x) }",
        "(float[6] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }",
        18,
    ),
    R(
        f"{OV}#35685", "2026-05", "Exp of NaN gives infinity", "openvino:2026.1",
        "(float[2] x) => (float[2] y) { y = Exp (x) }", "(float[2] x) => (float[2] y) { y = Neg (x) }", 14,
    ),
    R(
        f"{OV}#35839", "2026-05", "Min drops NaN", "openvino:2026.1",
        _AB + " { y = Min (a, b) }", _AB + " { y = Add (a, b) }", 18,
    ),
    R(
        f"{OV}#33600", "2026-01", "AveragePool in float16", "openvino:2026.0",
        "(float16[1, 2, 8, 8] x) => (float16[1, 2, 7, 7] y) { y = AveragePool <kernel_shape = [2, 2]> (x) }",
        "(float[1, 2, 8, 8] x) => (float[1, 2, 7, 7] y) { y = AveragePool <kernel_shape = [2, 2]> (x) }",
        18,
    ),
    R(
        f"{OV}#33620", "2026-01", "an output of a Div that broadcasts", "openvino:2026.0",
        "(float[1, 1, 1, 8] a, float[1, 4, 1, 8] b) => (float[1, 4, 1, 8] y) { y = Div (a, b) }",
        "(float[1, 4, 1, 8] a, float[1, 4, 1, 8] b) => (float[1, 4, 1, 8] y) { y = Div (a, b) }",
        18,
    ),
    R(
        f"{OV}#31252", "2025-07", "Softsign", "openvino:2025.3",
        _X + " { a = Relu (x) y = Softsign (a) }", _X + " { a = Relu (x) y = Tanh (a) }",
    ),
    R(
        f"{OV}#31004", "2025-06", "Unique", "openvino:2025.3",
        "(float[6] x) => (float[k] y) { y = Unique (x) }", "(float[6] x) => (float[6] y) { y = Identity (x) }",
    ),
    R(
        f"{OV}#34617", "2026-03", "Gather in a model of dynamic sizes, on the NPU", "openvino:2026.0",
        "(int64[b, s] i) => (float[b, s, 4] y) { y = Gather (w, i) }",
        "(int64[1, 8] i) => (float[1, 8, 4] y) { y = Gather (w, i) }",
        constants={"w": np.ones((10, 4), F32)},
    ),
    R(
        f"{OV} PR#35241", "2026-04", "a branch that gives a stored tensor", "openvino:2026.1",
        _BRANCH.format(then="<float[2] a = {1, 2}> { }"), _BRANCH.format(then="{ a = Abs (x) }"),
    ),
)  # fmt: skip
