"""Reports of ONNX Runtime, on the CPU and on CUDA."""

from __future__ import annotations

import numpy as np

from reported.report import Report as R

__all__ = ["REPORTS"]

F32, I64, F16 = np.float32, np.int64, np.float16
ORT = "microsoft/onnxruntime"

_X = "(float[2, 4] x) => (float[2, 4] y)"
_QKV = "(float[1, 2, {q}, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v{more}) => (float[1, 2, {q}, 8] y{also})"
_BRANCHES = (
    "(bool c, float[64] x) => (float[64] y) {{ {before} y = If ({condition}) <then_branch = t () => (float[64] a)"
    " <float[64] w = {{" + ", ".join(["1"] * 64) + "}}> {{ a = Add (x, w) }}, else_branch = e () => (float[64] b)"
    " {{ b = Relu (x) }}> }}"
)
_NORM = (
    "({t}[2, 8] x, {t}[8] s) => ({t}[2, 8] y) {{ m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) q = Pow (d, two)"
    " v = ReduceMean <axes = [-1]> (q) e = Add (v, eps) r = Sqrt (e) n = Div (d, r) y = Mul (n, s) }}"
)
_POOL = "(float[1, 1, {n}] x) => (float[1, 1, k] y) {{ y = {operator} <kernel_shape = [{kernel}], {more}> (x) }}"

REPORTS = (
    R(
        f"{ORT}#32416", "2026-09", "Cast to the same type before a product with 1 / x", "onnxruntime:1.30",
        "(float[2] x, float[2] w) => (float[2] y) { m = Cast <to = 1> (x) r = Div (one, w) y = Mul (m, r) }",
        "(float[2] x, float[2] w) => (float[2] y) { r = Div (one, w) y = Mul (x, r) }",
        constants={"one": F32(1)},
    ),
    R(
        f"{ORT}#32130", "2026-08", "GreaterOrEqual of constants before opset 16 is not folded", "onnxruntime:1.30",
        _X + " { c = GreaterOrEqual (one, two) z = Neg (x) y = Where (c, x, z) }",
        _X + " { c = GreaterOrEqual (one, two) z = Neg (x) y = Where (c, x, z) }",
        13, 16, {"one": F32([1]), "two": F32([2])},
    ),
    R(
        f"{ORT}#29020", "2026-06", "causal Attention of fewer queries than keys, without a past", "onnxruntime:1.26",
        _QKV.format(q=1, more="", also="") + " { y = Attention <is_causal = 1> (q, k, v) }",
        _QKV.format(q=4, more="", also="") + " { y = Attention <is_causal = 1> (q, k, v) }",
        23,
    ),
    R(
        f"{ORT}#28904", "2026-06", "causal Attention with nonpad_kv_seqlen", "onnxruntime:1.26",
        _QKV.format(q=4, more=", int64[1] n", also="") + " { y = Attention <is_causal = 1> (q, k, v, , , , n) }",
        _QKV.format(q=4, more=", int64[1] n", also="") + " { y = Attention (q, k, v, , , , n) }",
        24,
    ),
    R(
        f"{ORT}#32600", "2026-09", "a residual sum in float16 that overflows", "onnxruntime:1.30",
        "(float16[2, 8] x) => (float16[2, 8] y) { a = MatMul (x, w) b = Add (x, a) c = MatMul (b, w) y = Add (b, c) }",
        "(float[2, 8] x) => (float[2, 8] y) { a = MatMul (x, v) b = Add (x, a) c = MatMul (b, v) y = Add (b, c) }",
        constants={"w": np.full((8, 8), 60, F16), "v": np.full((8, 8), 60, F32)},
    ),
    R(
        f"{ORT}#29071", "2026-06", "an If on a constant whose branch stores a tensor", "onnxruntime:1.26",
        _BRANCHES.format(before="k = Constant <value = bool {1}> ()", condition="k"),
        _BRANCHES.format(before="", condition="c"),
    ),
    R(
        f"{ORT}#29153", "2026-06", "a layer normalization of many nodes in float16", "onnxruntime:1.26",
        _NORM.format(t="float16").replace("two", "two16").replace("eps", "eps16"), _NORM.format(t="float"),
        constants={"two": F32(2), "eps": F32(1e-5), "two16": F16(2), "eps16": F16(1e-5)},
    ),
    R(
        f"{ORT}#29637", "2026-07", "MaxPool with dilations and padding at the begin", "cuda:1.27",
        _POOL.format(n=9, operator="MaxPool", kernel=2, more="pads = [1, 1], dilations = [2]"),
        _POOL.format(n=9, operator="MaxPool", kernel=2, more="dilations = [2]"),
    ),
    R(
        f"{ORT} PR#29631", "2026-07", "AveragePool with other padding at its ends", "cuda:1.27",
        _POOL.format(n=9, operator="AveragePool", kernel=7, more="pads = [0, 3], strides = [3]"),
        _POOL.format(n=9, operator="AveragePool", kernel=7, more="pads = [3, 3], strides = [3]"),
    ),
    R(
        f"{ORT} PR#29631", "2026-07", "AveragePool with dilations", "cuda:1.27",
        _POOL.format(n=9, operator="AveragePool", kernel=2, more="dilations = [2]"),
        _POOL.format(n=9, operator="AveragePool", kernel=2, more="dilations = [1]"),
        19,
    ),
    R(
        f"{ORT} PR#29629", "2026-07", "AveragePool that rounds up and counts the padding", "onnxruntime:1.27",
        _POOL.format(
            n=9, operator="AveragePool", kernel=7,
            more="pads = [0, 3], strides = [3], ceil_mode = 1, count_include_pad = 1",
        ),
        _POOL.format(n=9, operator="AveragePool", kernel=7, more="pads = [0, 3], strides = [3], count_include_pad = 1"),
    ),
    R(
        f"{ORT}#27455", "2026-02", "a skip connection before LayerNormalization with a scale of rank 3",
        "onnxruntime:1.24",
        "(float[1, 2, 4] x, float[1, 2, 4] s) => (float[1, 2, 4] y) { a = Add (x, s) y = LayerNormalization (a, g3) }",
        "(float[1, 2, 4] x, float[1, 2, 4] s) => (float[1, 2, 4] y) { a = Add (x, s) y = LayerNormalization (a, g1) }",
        constants={"g3": np.ones((1, 1, 4), F32), "g1": np.ones(4, F32)},
    ),
    R(
        f"{ORT}#26262", "2025-10", "Attention that gives present keys and has no past ones", "onnxruntime:1.23",
        _QKV.format(q=4, more="", also=", float[1, 2, 4, 8] p, float[1, 2, 4, 8] u")
        + " { y, p, u = Attention (q, k, v) }",
        _QKV.format(q=4, more="", also="") + " { y = Attention (q, k, v) }",
        23,
    ),
    R(
        f"{ORT} PR#28365", "2026-05", "Reshape of opset 24", "cuda:1.26",
        "(float[2, 4] x) => (float[8] y) { y = Reshape (x, s) }",
        "(float[2, 4] x) => (float[8] y) { y = Reshape (x, s) }",
        24, 22, {"s": I64([8])},
    ),
    R(
        f"{ORT}#26393", "2025-10", "Pad of opset 19 and newer", "cuda:1.23",
        "(float[2, 4] x) => (float[2, 6] y) { y = Pad (x, p) }",
        "(float[2, 4] x) => (float[2, 6] y) { y = Pad (x, p) }",
        19, 18, {"p": I64([0, 1, 0, 1])},
    ),
)  # fmt: skip
