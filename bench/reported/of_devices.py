"""Reports of Core ML and QNN, as execution providers of ONNX Runtime."""

from __future__ import annotations

import numpy as np

from reported.report import Report as R

__all__ = ["REPORTS"]

F32, I64 = np.float32, np.int64
ORT, QNN = "microsoft/onnxruntime", "onnxruntime/onnxruntime-qnn"

_CONVOLUTION = "(float[1, 4, {t}] x) => (float[1, 4, {u}] y) {{ y = Conv <pads = [1, 1]> (x, w) }}"
_PAD = '(float[1, 2, 8, 8] x) => (float[1, 2, 10, 10] y) {{ y = Pad <mode = "{mode}"> (x, p, v) }}'
_RELU = "({t}[1, 2, 8, 8] x) => ({t}[1, 2, 8, 8] y) {{ y = Relu (x) }}"
_GEMM = "(float[2, 4] x) => (float[{n}] y) {{ g = Gemm (x, w) r = Reshape (g, s) y = Softmax <axis = {axis}> (r) }}"
_ROI = (
    "(float[1, 1, 8, 8] x, float[1, 4] r, int64[1] i) => (float[1, 1, 2, 2] y)"
    ' {{ y = RoiAlign <mode = "{mode}", output_height = 2, output_width = 2> (x, r, i) }}'
)
_RESIZE = '(float[1, 2, 8, 8] x) => (float[1, 2, 4, 4] y) {{ y = Resize <mode = "{mode}"> (x, , , sizes) }}'

REPORTS = (
    R(
        "ekhodzitsky/gigastt#42", "2026-06", "Conv over a dynamic time axis fails when it runs",
        "coreml-mlprogram:1.27",
        _CONVOLUTION.format(t="t", u="t"), _CONVOLUTION.format(t=16, u=16), constants={"w": np.ones((4, 4, 3), F32)},
    ),
    R(
        "ultralytics/inference#148", "2026-05", "GatherElements of computed places", "coreml-mlprogram:1.26",
        "(float[1, 8] x, float[1, 8] z) => (float[1, 4] y) { v, i = TopK (x, k) y = GatherElements <axis = 1> (z, i) }",
        "(float[1, 8] z) => (float[1, 4] y) { y = Slice (z, zero, k, one) }",
        constants={"k": I64([4]), "zero": I64([0]), "one": I64([1])},
    ),
    R(
        "ultralytics/inference#148", "2026-05", "float16 in the format NeuralNetwork", "coreml-neuralnetwork:1.26",
        _RELU.format(t="float16"), _RELU.format(t="float"),
    ),
    R(
        f"{ORT}#28022", "2026-04", "Pad that reflects", "coreml-mlprogram:1.24",
        _PAD.format(mode="reflect"), _PAD.format(mode="constant"),
        constants={"p": I64([0, 0, 1, 1, 0, 0, 1, 1]), "v": F32(0)},
    ),
    R(
        f"{ORT} PR#28270", "2026-04", "Split before opset 13", "coreml-mlprogram:1.25",
        "(float[1, 4] x) => (float[1, 1] y, float[1, 3] z) { y, z = Split <axis = 1, split = [1, 3]> (x) }",
        "(float[1, 4] x) => (float[1, 1] y, float[1, 3] z) { y, z = Split <axis = 1> (x, parts) }",
        11, 13, {"parts": I64([1, 3])},
    ),
    R(
        f"{ORT}#28180", "2026-04", "Gather with a scalar place", "coreml-mlprogram:1.25",
        "(float[1, 16, 8] x) => (float[1, 8] y) { y = Gather <axis = 1> (x, three) }",
        "(float[1, 16, 8] x) => (float[1, 1, 8] y) { y = Gather <axis = 1> (x, threes) }",
        constants={"three": I64(3), "threes": I64([3])},
    ),
    R(
        f"{QNN}#646", "2026-07", "Attention", "qnn:2.0",
        "(float[1, 8, 64] q, float[1, 8, 64] k, float[1, 8, 64] v) => (float[1, 8, 64] y)"
        " { y = Attention <q_num_heads = 4, kv_num_heads = 4, is_causal = 1> (q, k, v) }",
        "(float[1, 8, 64] x, float[64] w) => (float[1, 8, 64] y) { y = RMSNormalization (x, w) }",
        24,
    ),
    R(
        f"{QNN} PR#304", "2026-04", "Softmax over another axis than the last, after Gemm", "qnn:2.0",
        _GEMM.format(n="2, 2, 2", axis=1), _GEMM.format(n="2, 2, 2", axis=-1),
        constants={"w": np.ones((4, 4), F32), "s": I64([2, 2, 2])},
    ),
    R(
        f"{QNN} PR#572", "2026-06", "IsInf of float64", "qnn:2.4",
        "(double[4] x) => (bool[4] y) { y = IsInf (x) }", "(float[4] x) => (bool[4] y) { y = IsInf (x) }", 20,
    ),
    R(
        f"{QNN} PR#89", "2026-03", "RoiAlign of maxima", "qnn:2.4",
        _ROI.format(mode="max"), _ROI.format(mode="avg"), 16,
    ),
    R(
        f"{QNN} PR#31", "2026-02", "cubic Resize", "qnn:2.0",
        _RESIZE.format(mode="cubic"), _RESIZE.format(mode="linear"), constants={"sizes": I64([1, 2, 4, 4])},
    ),
    R(
        f"{ORT}#25334", "2025-07", "DynamicQuantizeLinear", "qnn:1.22",
        "(float[2, 4] x) => (uint8[2, 4] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear (x) }",
        "(float[2, 4] x) => (uint8[2, 4] y) { y = QuantizeLinear (x, scale, zero) }",
        constants={"scale": F32(0.1), "zero": np.uint8(0)},
    ),
)  # fmt: skip
