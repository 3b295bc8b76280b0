"""Convolution and transposed convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, all_known, dim_of, dims_of, per_dim, product, shape_of
from opbridge.translations.lib.dtypes import FLOATS
from opbridge.translations.lib.reshaping import reshape, with_batch
from opbridge.translations.lib.windows import gathered_windows, pad, sliding_windows
from opbridge.translations.registry import builtin


@builtin("aten::conv1d", "aten::conv2d", "aten::conv3d")
@builtin("aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding", "aten::_convolution_mode")
def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups: int = 1):
    """conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2]
    dilation=1, SymInt groups=1) -> Tensor; .padding takes padding as "same" or "valid" """
    rank = len(weight.shape) - 2
    stride, dilation = per_dim(stride, rank), per_dim(dilation, rank)
    if padding == "same":
        # All but an odd one on both sides: that one goes behind.
        whole = [d * int(dim_of(weight, axis) - 1) for axis, d in enumerate(dilation, start=2)]
        before = [total // 2 for total in whole]
        after = [total - head for total, head in zip(whole, before, strict=True)]
    else:
        before = after = [0] * rank if padding == "valid" else per_dim(padding, rank)
    return with_batch(input, rank + 2, lambda x: _conv(x, weight, bias, stride, before, after, dilation, groups))


@builtin("aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input")
def conv_transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups: int = 1, dilation=1):
    """conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0,
    SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor"""
    rank = len(weight.shape) - 2
    stride, padding, output_padding, dilation = (
        per_dim(given, rank) for given in (stride, padding, output_padding, dilation)
    )
    return with_batch(
        input,
        rank + 2,
        lambda x: _conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation),
    )


@builtin("aten::convolution", "aten::_convolution", "aten::_convolution.deprecated")
def convolution(
    input, weight, bias, stride, padding, dilation, transposed: bool, output_padding, groups: int, *flags: bool
):
    """convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool
    transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""
    if transposed:
        return conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(input, weight, bias, stride, padding, dilation, groups)


@builtin("aten::conv1d", "aten::conv2d", "aten::conv3d", complex=True)
@builtin("aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding", complex=True)
def complex_conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups: int = 1):
    """conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2]
    dilation=1, SymInt groups=1) -> Tensor"""
    return _complex(lambda x, w: conv(x, w, None, stride, padding, dilation, groups), input, weight, bias)


@builtin("aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input", complex=True)
def complex_conv_transpose(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups: int = 1, dilation=1
):
    """conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0,
    SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor"""
    return _complex(
        lambda x, w: conv_transpose(x, w, None, stride, padding, output_padding, groups, dilation), input, weight, bias
    )


def _complex(function: Callable[[Any, Any], Any], input: Any, weight: Any, bias: Any) -> Any:
    """A bilinear operator of real tensors, applied to complex ones."""
    (a, b), (c, d) = (
        [_with_shape(op.Gather(value, part, axis=-1), value.shape[:-1]) for part in (0, 1)] for value in (input, weight)
    )
    real = op.Sub(function(a, c), function(b, d))
    imaginary = op.Add(function(a, d), function(b, c))
    result = op.Concat(op.Unsqueeze(real, [-1]), op.Unsqueeze(imaginary, [-1]), axis=-1)
    if bias is None:
        return result
    return op.Add(result, op.Unsqueeze(bias, list(range(1, len(weight.shape) - 2))))


@builtin("aten::conv_tbc")
def conv_tbc(self, weight, bias, pad: int = 0):
    """conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor"""
    x, kernel = op.Transpose(self, perm=[1, 2, 0]), op.Transpose(weight, perm=[2, 1, 0])
    return op.Transpose(op.Conv(x, kernel, bias, pads=[pad, pad]), perm=[2, 0, 1])


_Ints = list[int]


def _conv(
    x: Any, weight: Any, bias: Any, stride: _Ints, before: _Ints, after: _Ints, dilation: _Ints, groups: Any
) -> Any:
    if not all_known(*stride, *dilation):
        raise TranslationError(
            "A convolution is supported only with a stride and a dilation that are known at export. Make the "
            "dimension that they are computed from static."
        )
    if not all_known(*before, *after):
        x, before, after = pad(x, before, after), [0] * len(before), [0] * len(after)
    if not _has_kernel(x.dtype) or not all_known(groups):
        x = pad(x, before, after)
        return _conv_of_windows(x, weight, bias, stride, dilation, groups)
    return op.Conv(
        x, weight, bias,
        kernel_shape=_kernel_shape(weight), strides=stride, pads=[*before, *after], dilations=dilation, group=groups,
    )  # fmt: skip


def _kernel_shape(weight: Any) -> list[int] | None:
    """The attribute, for runtimes that do not read it off the weight."""
    lengths = dims_of(weight)[2:]
    return [int(length) for length in lengths] if all_known(*lengths) else None


def _has_kernel(dtype: ir.DataType) -> bool:
    """Whether ONNX's operator takes the type, float32 being what narrower ones are computed in."""
    return dtype in FLOATS and dtype != ir.DataType.DOUBLE


def _with_shape(value: Any, shape: list[Any]) -> Any:
    value.shape = ir.Shape(shape)
    return value


def _conv_of_windows(x: Any, weight: Any, bias: Any, stride: _Ints, dilation: _Ints, groups: Any) -> Any:
    """For float64, integers, and a number of groups that is a size: every window times every filter, one Einsum."""
    rank, groups = len(stride), Dim(groups)
    outputs, inputs, *kernel = dims_of(weight)
    if all_known(*kernel):
        laid_out, counts = sliding_windows(x, [int(length) for length in kernel], stride, [0] * rank, dilation)
    else:
        laid_out, counts = gathered_windows(x, kernel, stride, dilation)
    elements = product(kernel)
    laid_out = op.Reshape(laid_out, shape_of([dim_of(x, 0), groups, inputs, *counts, elements]))
    filters = op.Reshape(weight, shape_of([groups, outputs // groups, inputs, elements]))
    places = "xyz"[:rank]
    result = op.Einsum(laid_out, filters, equation=f"ngi{places}k,goik->ngo{places}")
    return _biased(op.Reshape(result, shape_of([dim_of(x, 0), outputs, *counts])), bias, rank)


def _biased(result: Any, bias: Any, rank: int) -> Any:
    return result if bias is None else op.Add(result, op.Unsqueeze(bias, list(range(1, rank + 1))))


def _conv_transpose(
    x: Any, weight: Any, bias: Any, stride: _Ints, padding: _Ints, extra: _Ints, groups: Any, dilation: _Ints
) -> Any:
    if not _has_kernel(x.dtype) or not all_known(groups):
        return _conv_transpose_of_windows(x, weight, bias, stride, padding, extra, groups, dilation)
    rank = len(stride)
    if not all_known(*extra):  # as in output_size=x.size(): as much as there may be, and what is too much cut off
        most = [max(s, d) - 1 for s, d in zip(stride, dilation, strict=True)]
        whole = _conv_transpose(x, weight, bias, stride, padding, most, groups, dilation)
        return pad(whole, [0] * rank, [Dim(e) - limit for e, limit in zip(extra, most, strict=True)])
    # torch's output_padding takes back padding at the end; only what goes beyond that is new.
    after = [max(p - e, 0) for p, e in zip(padding, extra, strict=True)]
    beyond = [max(e - p, 0) for p, e in zip(padding, extra, strict=True)]
    within = all(e < s for e, s in zip(beyond, stride, strict=True))
    result = op.ConvTranspose(
        x, weight, bias if within else None,
        kernel_shape=_kernel_shape(weight), strides=stride, pads=[*padding, *after], dilations=dilation, group=groups,
        output_padding=beyond if within else None,
    )  # fmt: skip
    if within:
        return result
    # Beyond the reach of every window there is the bias alone.
    return _biased(op.Pad(result, [0, 0, *([0] * rank), 0, 0, *beyond]), bias, rank)


def _conv_transpose_of_windows(
    x: Any, weight: Any, bias: Any, stride: _Ints, padding: _Ints, extra: _Ints, groups: Any, dilation: _Ints
) -> Any:
    """A convolution, with stride 1 and filters turned around, of the input with zeros between its elements."""
    rank = len(stride)
    lead, lengths = dims_of(x)[:2], dims_of(x)[2:]
    spread = x
    if any(s > 1 for s in stride):
        ends = [s - 1 for s in stride]
        spread = op.Unsqueeze(x, [2 * k + 3 for k in range(rank)])
        spread = op.Pad(spread, [0] * (4 + 2 * rank) + [n for end in ends for n in (0, end)])
        spread = reshape(spread, [*lead, *(length * s for length, s in zip(lengths, stride, strict=True))])
    kernel = dims_of(weight)[2:]
    reach = [(k - 1) * d for d, k in zip(dilation, kernel, strict=True)]
    before = [r - p for r, p in zip(reach, padding, strict=True)]
    after = [head + e - (s - 1) for head, e, s in zip(before, extra, stride, strict=True)]
    framed = pad(spread, before, after)
    groups = Dim(groups)
    outputs, inputs = dim_of(weight, 1), dim_of(weight, 0) // groups
    flipped = op.Slice(weight, [-1] * rank, [-(2**62)] * rank, list(range(2, 2 + rank)), [-1] * rank)
    grouped = op.Reshape(flipped, shape_of([groups, inputs, outputs, *kernel]))
    grouped = op.Transpose(grouped, perm=[0, 2, 1, *range(3, 3 + rank)])
    filters = reshape(grouped, [groups * outputs, inputs, *kernel])
    return _conv_of_windows(framed, filters, bias, [1] * rank, dilation, groups)
