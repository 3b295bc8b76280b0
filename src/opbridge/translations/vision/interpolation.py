"""Resizing of images."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, all_known, as_dims, dim_of, dims_of, shape_of
from opbridge.translations.lib.dtypes import FLOATS, const, widen
from opbridge.translations.registry import builtin
from opbridge.translations.vision.fixed_point import along_columns, along_rows
from opbridge.translations.vision.resampling import matrix, nearest, resize_finds, scaled_size

# Nearest neighbour


@builtin("aten::upsample_nearest1d")
def upsample_nearest1d(self, output_size, scales=None):
    """upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"""
    return _nearest(self, output_size, [scales], False)


@builtin("aten::upsample_nearest2d")
def upsample_nearest2d(self, output_size, scales_h=None, scales_w=None):
    """upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return _nearest(self, output_size, [scales_h, scales_w], False)


@builtin("aten::upsample_nearest3d")
def upsample_nearest3d(self, output_size, scales_d=None, scales_h=None, scales_w=None):
    """upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float?
    scales_w=None) -> Tensor"""
    return _nearest(self, output_size, [scales_d, scales_h, scales_w], False)


@builtin("aten::upsample_nearest1d.vec", "aten::upsample_nearest2d.vec", "aten::upsample_nearest3d.vec")
def upsample_nearest_vec(input, output_size, scale_factors):
    """upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return _nearest(input, output_size, scale_factors, False)


@builtin("aten::_upsample_nearest_exact1d")
def upsample_nearest_exact1d(self, output_size, scales=None):
    """_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"""
    return _nearest(self, output_size, [scales], True)


@builtin("aten::_upsample_nearest_exact2d")
def upsample_nearest_exact2d(self, output_size, scales_h=None, scales_w=None):
    """_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) ->
    Tensor"""
    return _nearest(self, output_size, [scales_h, scales_w], True)


@builtin("aten::_upsample_nearest_exact3d")
def upsample_nearest_exact3d(self, output_size, scales_d=None, scales_h=None, scales_w=None):
    """_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float?
    scales_w=None) -> Tensor"""
    return _nearest(self, output_size, [scales_d, scales_h, scales_w], True)


@builtin(
    "aten::_upsample_nearest_exact1d.vec", "aten::_upsample_nearest_exact2d.vec", "aten::_upsample_nearest_exact3d.vec"
)
def upsample_nearest_exact_vec(input, output_size, scale_factors):
    """_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return _nearest(input, output_size, scale_factors, True)


def _nearest(x: Any, output_size: Any, scales: Any, exact: bool) -> Any:
    lengths, outs, scales = _sizes_and_factors(x, output_size, scales)
    if _grows_by_powers_of_two(lengths, scales) and x.dtype in _RESIZED:
        factors = const([1.0, 1.0, *scales], np.float32)
        return op.Resize(x, None, factors, None, **_ASYMMETRIC)
    each = list(zip(lengths, outs, scales, strict=True))
    indices = [nearest(length, out, scale, exact, len(lengths)) for length, out, scale in each]
    if x.dtype in _RESIZED and all(
        resize_finds(index, length, out) for index, (length, out, _) in zip(indices, each, strict=True)
    ):
        return op.Resize(x, None, None, shape_of([*dims_of(x)[:2], *outs]), **_ASYMMETRIC)
    # The last dimension first, while the others are still small.
    for axis, index in reversed(list(enumerate(indices, start=2))):
        if isinstance(index, np.ndarray):
            if not np.array_equal(index, np.arange(int(dim_of(x, axis)))):
                x = _gather_along(x, const(index, np.int64), axis)
        else:
            x = _gather_along(x, index, axis)
    return x


def _gather_along(x: Any, index: Any, axis: int) -> Any:
    result = op.Gather(x, index, axis=axis)
    result.shape = ir.Shape([None if at == axis else dim for at, dim in enumerate(x.shape)])
    return result


_ASYMMETRIC: dict[str, Any] = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}

_RESIZED = frozenset({*FLOATS, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT32, ir.DataType.BOOL}) - {
    ir.DataType.DOUBLE
}


def _sizes_and_factors(x: Any, output_size: Any, scales: Any) -> tuple[list[Dim], list[Dim], list[float | None]]:
    """The sizes before and after, and the factors that torch was given."""
    lengths = dims_of(x)[2:]
    factors: list[float | None] = list(scales) if scales else [None] * len(lengths)
    if output_size is not None:
        return lengths, as_dims(output_size), factors
    return lengths, [scaled_size(length, scale) for length, scale in zip(lengths, scales, strict=True)], factors


def _grows_by_powers_of_two(lengths: list[Dim], scales: list[float | None]) -> bool:
    """Whether dynamic sizes grow by powers of two, which neither torch's nor ONNX's arithmetic rounds."""
    return not all_known(*lengths) and all(scale in (1, 2, 4, 8, 16) for scale in scales)


# Linear, cubic


@builtin("aten::upsample_linear1d")
def upsample_linear1d(self, output_size, align_corners: bool, scales=None):
    """upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor"""
    return _linear(self, output_size, align_corners, [scales])


@builtin("aten::upsample_bilinear2d")
def upsample_bilinear2d(self, output_size, align_corners: bool, scales_h=None, scales_w=None):
    """upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
    scales_w=None) -> Tensor"""
    return _linear(self, output_size, align_corners, [scales_h, scales_w])


@builtin("aten::upsample_trilinear3d")
def upsample_trilinear3d(self, output_size, align_corners: bool, scales_d=None, scales_h=None, scales_w=None):
    """upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float?
    scales_h=None, float? scales_w=None) -> Tensor"""
    return _linear(self, output_size, align_corners, [scales_d, scales_h, scales_w])


@builtin("aten::upsample_linear1d.vec", "aten::upsample_bilinear2d.vec", "aten::upsample_trilinear3d.vec")
def upsample_linear_vec(input, output_size, align_corners: bool, scale_factors):
    """upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
    Tensor"""
    return _linear(input, output_size, align_corners, scale_factors)


def _linear(x: Any, output_size: Any, align_corners: bool, scales: Any) -> Any:
    lengths, outs, factors = _sizes_and_factors(x, output_size, scales)
    # From size to size the two compute alike; by a factor, ONNX rounds the factor and the size in its own way.
    by_size = align_corners or not any(factors) or _sizes_tell(lengths, outs, factors)
    if x.dtype == ir.DataType.DOUBLE or not by_size or _is_image_of_bytes(x):
        return _resize_by_products("linear", x, output_size, align_corners, scales)
    _refuse_integers(x)
    mode = "align_corners" if align_corners else "half_pixel"
    shape = shape_of([*dims_of(x)[:2], *outs])
    return op.Resize(x, None, None, shape, mode="linear", coordinate_transformation_mode=mode)


def _sizes_tell(lengths: list[Dim], outs: list[Dim], factors: list[float | None]) -> bool:
    """Whether the factors are what the sizes say, too."""
    each = zip(lengths, outs, factors, strict=True)
    return all(
        not factor or (int(out) == int(length) * factor if all_known(length, out) else factor % 1 == 0)
        for length, out, factor in each
    )


@builtin("aten::upsample_bicubic2d")
def upsample_bicubic2d(self, output_size, align_corners: bool, scales_h=None, scales_w=None):
    """upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
    scales_w=None) -> Tensor"""
    return _resize_by_products("cubic", self, output_size, align_corners, [scales_h, scales_w])


@builtin("aten::upsample_bicubic2d.vec")
def upsample_bicubic2d_vec(input, output_size, align_corners: bool, scale_factors):
    """upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
    Tensor"""
    return _resize_by_products("cubic", input, output_size, align_corners, scale_factors)


@builtin("aten::_upsample_bilinear2d_aa")
def upsample_bilinear2d_aa(self, output_size, align_corners: bool, scales_h=None, scales_w=None):
    """_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
    scales_w=None) -> Tensor"""
    return _resize_by_products("linear", self, output_size, align_corners, [scales_h, scales_w], antialias=True)


@builtin("aten::_upsample_bilinear2d_aa.vec")
def upsample_bilinear2d_aa_vec(input, output_size, align_corners: bool, scale_factors):
    """_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
    Tensor"""
    return _resize_by_products("linear", input, output_size, align_corners, scale_factors, antialias=True)


@builtin("aten::_upsample_bicubic2d_aa")
def upsample_bicubic2d_aa(self, output_size, align_corners: bool, scales_h=None, scales_w=None):
    """_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
    scales_w=None) -> Tensor"""
    return _resize_by_products("cubic", self, output_size, align_corners, [scales_h, scales_w], antialias=True)


@builtin("aten::_upsample_bicubic2d_aa.vec")
def upsample_bicubic2d_aa_vec(input, output_size, align_corners: bool, scale_factors):
    """_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
    Tensor"""
    return _resize_by_products("cubic", input, output_size, align_corners, scale_factors, antialias=True)


@builtin("aten::_upsample_lanczos2d_aa")
def upsample_lanczos2d_aa(self, output_size, align_corners: bool, scales_h=None, scales_w=None):
    """_upsample_lanczos2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
    scales_w=None) -> Tensor"""
    return _resize_by_products("lanczos", self, output_size, align_corners, [scales_h, scales_w], antialias=True)


@builtin("aten::_upsample_lanczos2d_aa.vec")
def upsample_lanczos2d_aa_vec(input, output_size, align_corners: bool, scale_factors):
    """_upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
    Tensor"""
    return _resize_by_products("lanczos", input, output_size, align_corners, scale_factors, antialias=True)


def _resize_by_products(
    kind: str, x: Any, output_size: Any, align_corners: bool, scales: Any, antialias: bool = False
) -> Any:
    """A MatMul along each dimension. onnxruntime's Resize is sixty times slower where it is cubic, and less exact.

    A non-finite element spreads over the whole row and column of the result, as zero times infinity is no number.
    """
    lengths, outs, factors = _sizes_and_factors(x, output_size, scales)
    if _is_image_of_bytes(x):
        rows, columns = (
            matrix(kind, length, out, factor, align_corners, antialias, ir.DataType.DOUBLE)
            for length, out, factor in zip(lengths, outs, factors, strict=True)
        )
        return op.Cast(along_rows(along_columns(x, columns), rows), to=x.dtype)
    _refuse_integers(x)
    x, lead = widen(x), dims_of(x)[:2]
    rank = len(lengths)
    dtype = x.dtype
    for k, (length, out, factor) in reversed(list(enumerate(zip(lengths, outs, factors, strict=True)))):
        weights = matrix(kind, length, out, factor, align_corners, antialias, dtype)
        if k == rank - 1:
            x = op.MatMul(x, op.Transpose(weights, perm=[1, 0]))
        elif k == rank - 2:
            x = op.MatMul(weights, x)
        else:
            # The dimensions behind it are one for the time being.
            flat = op.Reshape(x, shape_of([*lead, length, -1]))
            x = op.Reshape(op.MatMul(weights, flat), shape_of([*lead, *outs]))
    return x


def _is_image_of_bytes(x: Any) -> bool:
    return x.dtype == ir.DataType.UINT8 and len(x.shape) == 4


def _refuse_integers(x: Any) -> None:
    if x.dtype not in FLOATS:
        raise TranslationError(
            f"PyTorch interpolates {x.dtype.name} in its own fixed-point arithmetic, which is not supported. "
            "Convert the image to float before resizing, and round the result."
        )
