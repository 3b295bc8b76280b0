"""Products of uint8 and int8 in ONNX Runtime, and whether they are exact on this processor.

On x86 processors without VNNI, ONNX Runtime adds two products in 16 bits, which saturates (seen with 1.32): a
convolution whose weights have the full range of int8 gives wrong results there. A session of opbridge then computes the
nodes between DequantizeLinear and QuantizeLinear in float32. The entry `session.x64quantprecision`, which ONNX Runtime
has for this, is not used: with it, weights that share a zero point do not load, and weights that are dequantised in
blocks do not run.
"""

from __future__ import annotations

import functools

import numpy
import onnxruntime

from opbridge.runtimes.onnxruntime.kernel_table import CPU, LOG_NOTHING
from opbridge.runtimes.onnxruntime.model_file import read_by_hand

__all__ = ["FLOAT32", "NOTE", "are_exact", "saturate"]

FLOAT32 = ("session.disable_quant_qdq", "1")
"""The entry of a session's configuration with which quantised nodes are computed in float32."""

NOTE = (
    "quantised nodes are computed in float32, because ONNX Runtime's products of int8 saturate on this processor, "
    "which has no VNNI"
)

# NodeProto.op_type, as it stands in a node.
_QUANTIZE = bytes((0x22, 14)) + b"QuantizeLinear"

# y = MatMulInteger(x, w) at opset 10, of uint8[1, 2] and int8[2, 1], as ONNX serialises it.
_PRODUCT = bytes.fromhex(
    "080812003a5c0a180a01780a0177120179220d4d61744d756c496e74656765721201705a130a0178120e0a0c080212080a0208010a0208025a"
    "130a0177120e0a0c080312080a0208020a02080162130a0179120e0a0c080612080a0208010a02080142040a00100a"
)


def saturate(model: str | bytes) -> bool:
    """Whether a model has products of quantised tensors that may saturate on this processor.

    Args:
        model: The path of the file, or its content.
    """
    if are_exact():
        return False
    return bool(read_by_hand(model, lambda content: ["QuantizeLinear"] if content.find(_QUANTIZE) >= 0 else []))


@functools.cache
def are_exact() -> bool:
    """Whether ONNX Runtime's product of the largest numbers of uint8 and int8 is right here."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = LOG_NOTHING
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(_PRODUCT, options, providers=[CPU])
    x, w = numpy.full((1, 2), 255, numpy.uint8), numpy.full((2, 1), 127, numpy.int8)
    return bool(session.run(None, {"x": x, "w": w})[0] == 2 * 255 * 127)
