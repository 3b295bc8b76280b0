"""Reports of onnxruntime-web on WebGPU: the kernels in JavaScript (webgpu), and the native ones."""

from __future__ import annotations

import numpy as np

from reported.report import Report as R

__all__ = ["REPORTS"]

F32, I64, F16 = np.float32, np.int64, np.float16
ORT = "microsoft/onnxruntime"

_TRANSPOSED = (
    "({t}[1, 1, 1, 1100] x, {t}[1, 1, 1, 2] w) => ({t}[1, 1, 1, 2200] y)"
    " {{ y = ConvTranspose <strides = [1, 2]> (x, w) }}"
)
_VOLUME = "({t}[1, 1, 4, 8, 8] x, {t}[2, 1, 3, 3, 3] w) => ({t}[1, 2, 2, 6, 6] y) {{ y = Conv (x, w) }}"
_NORM = "({t}[2, 8] x, {t}[8] s, {t}[8] b) => ({t}[2, 8] y) {{ y = LayerNormalization (x, s, b) }}"
_TWO = "({t}[2, 4] a, {t}[2, 4] b) => ({r}[2, 4] y) {{ y = {operator} (a, b) }}"
_CAST = "({t}[4] x) => (float[4] y) {{ y = Cast <to = 1> (x) }}"
_SLICED = "({t}[2, 8] x) => ({t}[2, 4] y) {{ y = Slice (x, start, end, axis) }}"
_SAME = (
    "(float[1, 2, 9, 9] x, float[2, 2, 3, 3] w) => (float[1, 2, 5, 5] y)"
    " {{ y = Conv <strides = [2, 2], {pads}> (x, w) }}"
)
_BITS = (
    "({t}[{m}, 32] x) => ({t}[{m}, {n}] y) {{ y = com.microsoft.MatMulNBits <K = 32, N = {n}, bits = 4,"
    " block_size = 32> (x, w{n}, {s}) }}"
)
_SKIP = (
    "(float[2, 3, 8] x, float[{b}, 3, 8] s) => (float[2, 3, 8] y)"
    " {{ y = com.microsoft.SkipLayerNormalization (x, s, g) }}"
)

REPORTS = (
    R(
        f"{ORT}#32275", "2026-08", "GridSample of a deformable decoder", "webgpu-native:1.28",
        "(float[1, 2, 8, 8] x, float[1, 4, 4, 2] g) => (float[1, 2, 4, 4] y) { y = GridSample (x, g) }",
        '(float[1, 2, 8, 8] x) => (float[1, 2, 4, 4] y) { y = Resize <mode = "linear"> (x, , , sizes) }',
        16, constants={"sizes": I64([1, 2, 4, 4])},
    ),
    R(
        f"{ORT}#28976", "2026-06", "ConvTranspose in float16 to more than 2048 columns", "webgpu-native:1.26",
        _TRANSPOSED.format(t="float16"), _TRANSPOSED.format(t="float"),
    ),
    R(
        f"{ORT} PR#32357", "2026-09", "Conv of three dimensions in float16", "webgpu:1.30",
        _VOLUME.format(t="float16"), _VOLUME.format(t="float"),
    ),
    R(
        f"{ORT}#32627", "2026-09", "LayerNormalization in float16", "webgpu-native:1.28",
        _NORM.format(t="float16"), _NORM.format(t="float"),
    ),
    R(
        f"{ORT} PR#29392", "2026-06", "Equal of int64", "webgpu-native:1.27",
        _TWO.format(t="int64", r="bool", operator="Equal"), _TWO.format(t="int32", r="bool", operator="Equal"),
    ),
    R(
        f"{ORT} PR#29844", "2026-07", "Add of int64", "webgpu-native:1.28",
        _TWO.format(t="int64", r="int64", operator="Add"), _TWO.format(t="int32", r="int32", operator="Add"),
    ),
    R(
        f"{ORT} PR#31714", "2026-08", "Gather of int64 elements", "webgpu-native:1.28",
        "(int64[4, 2] x, int64[3] i) => (int64[3, 2] y) { y = Gather (x, i) }",
        "(float[4, 2] x, int64[3] i) => (float[3, 2] y) { y = Gather (x, i) }",
    ),
    R(
        f"{ORT}#29273", "2026-06", "ReduceSum of int64", "webgpu-native:1.27",
        "(int64[2, 4] x) => (int64[2, 1] y) { y = ReduceSum (x, axis) }",
        "(float[2, 4] x) => (float[2, 1] y) { y = ReduceSum (x, axis) }",
        constants={"axis": I64([1])},
    ),
    R(
        f"{ORT}#27291", "2026-02", "Cast of int64", "webgpu-native:1.24",
        _CAST.format(t="int64"), _CAST.format(t="int32"), 13,
    ),
    R(
        f"{ORT}#26690", "2025-12", "Slice in float16", "webgpu-native:1.24",
        _SLICED.format(t="float16"), _SLICED.format(t="float"),
        constants={"start": I64([0]), "end": I64([4]), "axis": I64([1])},
    ),
    R(
        f"{ORT} PR#27249", "2026-02", "Conv with SAME_UPPER padding and strides", "webgpu-native:1.24",
        _SAME.format(pads='auto_pad = "SAME_UPPER"'), _SAME.format(pads="pads = [1, 1, 1, 1]"),
    ),
    R(
        f"{ORT} PR#29599", "2026-07", "MatMulNBits in float16 sums in float16", "webgpu-native:1.27",
        _BITS.format(t="float16", m=4, n=32, s="s16"), _BITS.format(t="float", m=4, n=32, s="s32"),
        constants={"w32": np.zeros((32, 1, 16), np.uint8), "s16": np.ones(32, F16), "s32": np.ones(32, F32)},
    ),
    R(
        f"{ORT} PR#32527", "2026-09", "MatMulNBits of sizes that its tiles do not divide", "webgpu-native:1.28",
        _BITS.format(t="float", m=5, n=20, s="s20"), _BITS.format(t="float", m=16, n=32, s="s32"),
        constants={
            "w32": np.zeros((32, 1, 16), np.uint8), "w20": np.zeros((20, 1, 16), np.uint8),
            "s20": np.ones(20, F32), "s32": np.ones(32, F32),
        },
    ),
    R(
        f"{ORT}#28969", "2026-06", "Add of two dimensions to four", "webgpu-native:1.27",
        "(float[3, 4] a, float[1, 1, 3, 4] b) => (float[1, 1, 3, 4] y) { y = Add (a, b) }",
        "(float[1, 1, 3, 4] a, float[1, 1, 3, 4] b) => (float[1, 1, 3, 4] y) { y = Add (a, b) }",
    ),
    R(
        f"{ORT} PR#27779", "2026-03", "Einsum of five dimensions", "webgpu-native:1.24",
        '(float[1, 2, 3, 4, 5] a, float[1, 2, 3, 5, 6] b) => (float[1, 2, 3, 4, 6] y)'
        ' { y = Einsum <equation = "abcde,abcef->abcdf"> (a, b) }',
        '(float[2, 4, 5] a, float[2, 5, 6] b) => (float[2, 4, 6] y) { y = Einsum <equation = "bij,bjk->bik"> (a, b) }',
    ),
    R(
        f"{ORT} PR#27107", "2026-01", "SkipLayerNormalization whose skip broadcasts", "webgpu-native:1.23",
        _SKIP.format(b=1), _SKIP.format(b=2), constants={"g": np.ones(8, F32)},
    ),
    R(
        f"{ORT} PR#28264", "2026-04", "GridSample of three dimensions", "webgpu-native:1.27",
        "(float[1, 2, 4, 4, 4] x, float[1, 2, 2, 2, 3] g) => (float[1, 2, 2, 2, 2] y) { y = GridSample (x, g) }",
        "(float[1, 2, 4, 4] x, float[1, 2, 2, 2] g) => (float[1, 2, 2, 2] y) { y = GridSample (x, g) }",
        20, 16,
    ),
)  # fmt: skip
