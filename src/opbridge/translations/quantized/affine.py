"""torchao's operators, whose blocks are of any shape, and products of integers."""

from __future__ import annotations

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import described
from opbridge.translations.lib.quantizing import blocks_of, dequantize, quantize, range_of
from opbridge.translations.quantized.forms import builtin_in_two_forms
from opbridge.translations.registry import builtin


@builtin_in_two_forms("torchao::quantize_affine")
def quantize_affine(input, block_size, scale, zero_point, output_dtype, quant_min=None, quant_max=None, wide=False):
    """quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype,
    Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor
    """
    least, greatest = range_of(output_dtype)
    low = least if quant_min is None else int(quant_min)
    high = greatest if quant_max is None else int(quant_max)
    blocks = blocks_of(input, block_size)
    return quantize(input, scale, zero_point, low, high, output_dtype, blocks, wide=wide)


@builtin_in_two_forms("torchao::dequantize_affine")
def dequantize_affine(
    input,
    block_size,
    scale,
    zero_point,
    input_dtype,
    quant_min=None,
    quant_max=None,
    output_dtype=ir.DataType.FLOAT,
    wide=False,
):
    """dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype,
    Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=6) -> Tensor
    """
    return dequantize(input, scale, zero_point, blocks_of(input, block_size), output_dtype, wide=wide)


@builtin("aten::_int_mm", "torchao::int_matmul")
def int_mm(self, mat2):
    """_int_mm(Tensor self, Tensor mat2) -> Tensor"""
    return described(op.MatMulInteger(self, mat2), None, ir.DataType.INT32)
