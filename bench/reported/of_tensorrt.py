"""Reports of TensorRT."""

from __future__ import annotations

import numpy as np

from reported.report import Report as R

__all__ = ["REPORTS"]

I64 = np.int64
TRT = "NVIDIA/TensorRT"

_SAMPLED = "(float[1, 2, 8, 8] x, float[1, 4, 4, 2] g) => (float[1, 2, 4, 4] y)"
_RESIZED = (
    "(float[1, 2, 8, 8] x) => (float[1, 2, 4, 4] y)"
    ' { y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, , , s) }'
)

REPORTS = (
    R(
        f"{TRT}#4775", "2026-05", "Cast of NaN and infinity to int32", "tensorrt:10.15",
        "(float[4] x) => (int32[4] y) { y = Cast <to = 6> (x) }",
        "(int32[4] x) => (float[4] y) { y = Cast <to = 1> (x) }",
    ),
    R(
        f"{TRT}#4773", "2026-05", "Clip of NaN gives the lower bound", "tensorrt:10.15",
        "(float[4] x) => (float[4] y) { y = Clip (x, low, high) }", "(float[4] x) => (float[4] y) { y = Add (x, low) }",
        constants={"low": np.float32(-1), "high": np.float32(1)},
    ),
    R(
        f"{TRT}#4758", "2026-05", "Min drops NaN", "tensorrt:10.15",
        "(float[4] a, float[4] b) => (float[4] y) { y = Min (a, b) }",
        "(float[4] a, float[4] b) => (float[4] y) { y = Add (a, b) }",
    ),
    R(
        f"{TRT}#4813", "2026-07", "GridSample of a deformable decoder", "tensorrt:11.1",
        _SAMPLED + ' { y = GridSample <mode = "bilinear", padding_mode = "zeros", align_corners = 0> (x, g) }',
        _RESIZED,
        16, constants={"s": I64([1, 2, 4, 4])},
    ),
    R(
        "pytorch/TensorRT#4074", "2026-02", "GridSample in float32 between parts in float16", "tensorrt:10.15",
        "(float16[1, 2, 8, 8] x, float16[1, 4, 4, 2] g) => (float16[1, 2, 4, 4] y) { a = Cast <to = 1> (x)"
        ' b = Cast <to = 1> (g) c = GridSample <mode = "bilinear", padding_mode = "border", align_corners = 1> (a, b)'
        " y = Cast <to = 10> (c) }",
        _RESIZED, 16, constants={"s": I64([1, 2, 4, 4])},
    ),
    R(
        f"{TRT}#4551", "2025-08", "sums along two axes are both along one", "tensorrt:10.15",
        "(float[4, 2] m) => (float[4, 2] y, float[4, 2] z) { y = CumSum (m, axis0) z = CumSum (m, axis1) }",
        "(float[4, 2] m) => (float[4, 2] y, float[4, 2] z) { y = CumSum (m, axis0) a = Neg (m) z = CumSum (a, axis0) }",
        constants={"axis0": I64(0), "axis1": I64(1)},
    ),
    R(
        f"{TRT}#4513", "2025-07", "sums in two directions are both in one", "tensorrt:10.15",
        "(float[4, 2] m) => (float[4, 2] y, float[4, 2] z)"
        " { y = CumSum (m, axis0) z = CumSum <reverse = 1> (m, axis0) }",
        "(float[4, 2] m) => (float[4, 2] y, float[4, 2] z) { y = CumSum (m, axis0) a = Neg (m) z = CumSum (a, axis0) }",
        constants={"axis0": I64(0)},
    ),
    R(
        f"{TRT}#4718", "2026-03", "Slice in bfloat16", "tensorrt:10.15",
        "(float[1, 8] x) => (float[1, 1] y)"
        " { b = Cast <to = 16> (x) c = Slice (b, zero, one, one) y = Cast <to = 1> (c) }",
        "(float[1, 8] x) => (float[1, 1] y) { y = Slice (x, zero, one, one) }",
        constants={"zero": I64([0]), "one": I64([1])},
    ),
)  # fmt: skip
