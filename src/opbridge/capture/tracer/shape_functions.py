"""Shapes of the results of frequent composite operators, without the operators that these consist of.

An operator that is one node of the graph needs the shape of its result, which torch finds by running what the operator
consists of: five operators for one `linear`. Only forms that all inputs have are here; the others go torch's path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_overrides import new_fake
from opbridge.capture.tracer.attention_shapes import attention, is_attention
from opbridge.capture.tracer.normalised_sizes import NORMALISING
from opbridge.capture.tracer.plain_operands import broadcast, is_plain, new
from opbridge.capture.tracer.shapes_of_parts import OF_PARTS, is_dynamic
from opbridge.capture.tracer.views_of_data import is_view_of_data, view_of_data

__all__ = ["shape_function"]

_aten = torch.ops.aten


def shape_function(function: Any, args: Any, settings: Mapping[str, Any] | None = None) -> Callable[..., Any] | None:
    """A function that gives what an operator gives, for tensors without values; None where torch is to be asked.

    Args:
        function: The operator.
        args: Its positional arguments, without values.
        settings: Its keyword arguments.
    """
    settings = settings or {}
    if not settings.keys() <= _TAKING.get(function, frozenset()):
        is_copy = function is _aten.clone.default and settings == {"memory_format": torch.contiguous_format}
        return _clone if is_copy and is_dynamic(args[0]) else None
    for found in (_FUNCTIONS.get(function), NORMALISING.get(function)):
        if found is not None and found[0](*args, **settings):
            return found[1]
    return None


def _is_plain_linear(x: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> bool:
    features = weight.shape[-1]
    return (
        x.dim() > 1
        and weight.dim() == 2
        and type(features) is int
        and type(x.shape[-1]) is int
        and x.shape[-1] == features
        and x.dtype == weight.dtype
        and x.device == weight.device
        and (bias is None or (bias.dtype == x.dtype and tuple(bias.shape) == (weight.shape[0],)))
    )


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> torch.Tensor:
    return new(x, (*x.shape[:-1], weight.shape[0]))


def _is_plain_matmul(x: Any, y: Any) -> bool:
    """With as many dimensions in front as make the result contiguous, and sizes that are seen to fit."""
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor) or x.dim() < 3 or y.dim() < 2:
        return False
    return (
        is_plain(x)
        and is_plain(y)
        and x.dtype == y.dtype
        and x.device == y.device
        and torch_sizes.is_equal(x.shape[-1], y.shape[-2])
        and broadcast(x.shape[:-2], y.shape[:-2]) is not None
    )


def _matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return new(x, (*(broadcast(x.shape[:-2], y.shape[:-2]) or ()), x.shape[-2], y.shape[-1]))


def _is_plain_layer_norm(
    x: torch.Tensor, normalized: Any, weight: Any = None, bias: Any = None, *settings: Any
) -> bool:
    last = tuple(x.shape[x.dim() - len(normalized) :])
    return (
        0 < len(normalized) <= x.dim()
        and all(type(size) is int for size in last)
        and last == tuple(normalized)
        and x.dtype.is_floating_point
        and all(each is None or (each.dtype == x.dtype and tuple(each.shape) == last) for each in (weight, bias))
    )


def _layer_norm(x: torch.Tensor, *settings: Any) -> torch.Tensor:
    return new(x, x.shape)


def _is_plain_batch_norm(x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, *settings: Any) -> bool:
    """In evaluation mode, with weights of one dtype."""
    given = [each for each in (weight, bias, mean, var) if each is not None]
    return (
        len(settings) > 0
        and settings[0] is False
        and mean is not None
        and var is not None
        and x.dim() > 1
        and type(x.shape[1]) is int
        and x.dtype.is_floating_point
        and all(each.dtype == x.dtype and tuple(each.shape) == (x.shape[1],) for each in given)
    )


def _batch_norm(x: torch.Tensor, *settings: Any) -> torch.Tensor:
    return _like(x)


def _is_plain_with_numbers(x: torch.Tensor, *numbers: Any) -> bool:
    return is_plain(x) and all(type(each) in (int, float) for each in numbers)


def _with_numbers(x: torch.Tensor, *numbers: Any) -> torch.Tensor:
    return _like(x)


def _is_plain_mean(x: torch.Tensor, dims: Any, keepdim: bool = False, *settings: Any) -> bool:
    """Over some dimensions, each of which is named once."""
    if not is_plain(x) or not x.dim() or not dims or settings:
        return False
    return len({dim % x.dim() for dim in dims}) == len(dims)


def _mean(x: torch.Tensor, dims: Any, keepdim: bool = False) -> torch.Tensor:
    reduced = {dim % x.dim() for dim in dims}
    if keepdim:
        return new(x, [1 if index in reduced else size for index, size in enumerate(x.shape)])
    return new(x, [size for index, size in enumerate(x.shape) if index not in reduced])


def _is_plain_binary(x: Any, y: Any) -> bool:
    """A number, or tensors of one dtype of which one has the form of the result."""
    if not isinstance(x, torch.Tensor) or not x.dtype.is_floating_point:
        return False
    if isinstance(y, (int, float)):
        return True
    return isinstance(y, torch.Tensor) and y.dtype == x.dtype and y.device == x.device and _whole(x, y) is not None


def _whole(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | None:
    """The one of two tensors that the other is broadcast to; None where that is not plain to see."""
    if x.dim() >= y.dim() and _fits(y, x):
        return x if x.dim() > y.dim() or not _fits(x, y) or torch_sizes.has_same_strides(x, y) else None
    return y if y.dim() >= x.dim() and _fits(x, y) else None


def _fits(small: torch.Tensor, large: torch.Tensor) -> bool:
    """Whether each size of a tensor is one, or that of another tensor, whatever the symbolic sizes are."""
    offset = large.dim() - small.dim()
    return offset >= 0 and all(
        torch_sizes.is_equal(size, large.shape[offset + index])
        or torch_sizes.is_one_or_none_of(size, large.shape[offset + index])
        for index, size in enumerate(small.shape)
    )


def _binary(x: torch.Tensor, y: Any) -> torch.Tensor:
    whole = _whole(x, y) if isinstance(y, torch.Tensor) else x
    return _like(x if whole is None else whole)


def _like(x: torch.Tensor) -> torch.Tensor:
    """What `empty_like` gives, which asks much about sizes to find the order of the dimensions in memory."""
    return new_fake(x, x.shape) if _is_plain_clone(x) else torch.empty_like(x)


def _is_plain_clone(x: torch.Tensor) -> bool:
    """With its dimensions in their order in memory, which torch finds by asking much about dynamic sizes."""
    return is_dynamic(x) and torch_sizes.descends(x.stride())


def _clone(x: torch.Tensor) -> torch.Tensor:
    return new_fake(x, x.shape)


def _is_plain_scatter(x: torch.Tensor, *settings: Any) -> bool:
    """Of a tensor of which no dimension repeats its elements, which torch finds by asking whether sizes are one.

    Where it is a part of another one, as `y[:, 1]` is, the result leaves out the same memory.
    """
    return is_dynamic(x) and (torch_sizes.memory_order(x) is not None or torch_sizes.steps_forward(x.stride()))


def _scatter(x: torch.Tensor, *settings: Any) -> torch.Tensor:
    return new_fake(x, x.shape, strides=x.stride())


def _is_plain_copy(x: torch.Tensor, source: torch.Tensor, *settings: Any) -> bool:
    """Of a tensor of the same shape, so that nothing is broadcast."""
    return _is_plain_scatter(x) and torch_sizes.is_same_shape(x.shape, source.shape)


def _is_plain_cross(x: torch.Tensor, y: torch.Tensor, dim: Any = None) -> bool:
    """Without a dimension, for which torch would ask of each size whether it is 3, as the translation does in a run."""
    return (
        dim is None
        and x.dtype == y.dtype
        and x.dim() == y.dim()
        and all(map(torch_sizes.is_equal, x.shape, y.shape))
        and any(type(size) is int and size == 3 for size in x.shape)
    )


def _cross(x: torch.Tensor, y: torch.Tensor, dim: Any = None) -> torch.Tensor:
    return _like(x)


def _is_plain_affine_grid(theta: torch.Tensor, size: Any, align_corners: Any) -> bool:
    """Of a symbolic size, which torch would make plain for its `linspace`."""
    return (
        theta.dim() == 3
        and theta.dtype.is_floating_point
        and len(size) in (4, 5)
        and tuple(theta.shape[1:]) == (len(size) - 2, len(size) - 1)
        and torch_sizes.is_equal(theta.shape[0], size[0])
        and any(isinstance(each, torch.SymInt) for each in size)
    )


def _affine_grid(theta: torch.Tensor, size: Any, align_corners: Any) -> torch.Tensor:
    return theta.new_empty((size[0], *size[2:], len(size) - 2))


def _is_plain_grid_sampler(x: torch.Tensor, grid: torch.Tensor, *settings: Any) -> bool:
    """Of one image for each grid, for which torch computes each step of the interpolation."""
    return (
        x.dim() in (4, 5)
        and x.dim() == grid.dim()
        and x.dtype == grid.dtype
        and x.layout == grid.layout == torch.strided
        and type(grid.shape[-1]) is int
        and grid.shape[-1] == x.dim() - 2
        and torch_sizes.is_equal(x.shape[0], grid.shape[0])
        and all(type(size) is not int or size > 0 for size in x.shape[2:])
        and len(settings) == 3
    )


def _grid_sampler(x: torch.Tensor, grid: torch.Tensor, *settings: Any) -> torch.Tensor:
    return x.new_empty((*x.shape[:2], *grid.shape[1:-1]))


def _is_im2col_of_data(x: torch.Tensor, *settings: Any) -> bool:
    """Of sizes that data decide, about which torch's own function asks."""
    return x.dim() in (3, 4) and any(map(torch_sizes.is_of_data, x.shape[-3:])) and len(settings) == 4


def _im2col(x: torch.Tensor, kernel: Any, dilation: Any, padding: Any, stride: Any) -> torch.Tensor:
    kernel, dilation, padding, stride = (
        [each[0]] * 2 if len(each) == 1 else each for each in (kernel, dilation, padding, stride)
    )
    for size in x.shape[-3:]:
        torch._check(size > 0, lambda: f"Expected non-zero sizes beside the batch, but got {tuple(x.shape)}")
    blocks = _blocks(x.shape[-2:], kernel, dilation, padding, stride)
    return x.new_empty((*x.shape[:-3], x.shape[-3] * kernel[0] * kernel[1], blocks))


def _blocks(size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """How many blocks an image has; an error where it has none."""
    found: Any = 1
    for whole, taps, apart, pad, step in zip(size, kernel, dilation, padding, stride, strict=True):
        room = whole + 2 * pad - apart * (taps - 1) - 1
        torch._check(room >= 0, lambda: f"An image of size {tuple(size)} has no block of size {tuple(kernel)}")
        found = found * (room // step + 1)
    return found


def _is_col2im_of_data(x: torch.Tensor, size: Any, kernel: Any, *settings: Any) -> bool:
    """Of blocks, or to an image, of sizes that data decide, about which torch's own function asks."""
    return (
        x.dim() in (2, 3)
        and len(settings) == 3
        and all(len(each) == 2 for each in (size, kernel, *settings))
        and all(type(each) is int and each > 0 for each in kernel)
        and type(x.shape[-2]) is int
        and x.shape[-2] > 0
        and x.shape[-2] % math.prod(kernel) == 0
        and any(map(torch_sizes.is_of_data, (*size, x.shape[-1])))
    )


def _col2im(x: torch.Tensor, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> torch.Tensor:
    for whole in size:
        torch._check(whole > 0, lambda: f"output_size should be greater than zero, but got {tuple(size)}")
    blocks = _blocks(size, kernel, dilation, padding, stride)
    torch._check(blocks == x.shape[-1], lambda: f"An image of size {tuple(size)} has {blocks} blocks")
    return x.new_empty((*x.shape[:-2], x.shape[-2] // math.prod(kernel), *size))


def _is_resizing_of_data(x: torch.Tensor, size: Any, align_corners: Any, factors: Any = None) -> bool:
    """To sizes that data decide, about which torch's own function asks where the corners are aligned."""
    return (
        align_corners is True
        and factors is None
        and size is not None
        and len(size) == x.dim() - 2
        and any(map(torch_sizes.is_of_data, size))
        and torch_sizes.is_in_order(x)
    )


def _resizing(x: torch.Tensor, size: Any, *settings: Any) -> torch.Tensor:
    for each in size:
        torch._check(each > 0, lambda: f"Input and output sizes should be greater than 0, but got {tuple(size)}")
    return x.new_empty((*x.shape[:2], *size))


_SAMPLING = (_aten.grid_sampler.default, _aten.grid_sampler_2d.default, _aten.grid_sampler_3d.default)
_BINARY = (_aten.add.Tensor, _aten.mul.Tensor, _aten.sub.Tensor, _aten.div.Tensor)
_RESIZING = (
    _aten.upsample_linear1d.vec,
    _aten.upsample_bilinear2d.vec,
    _aten.upsample_trilinear3d.vec,
    _aten.upsample_bicubic2d.vec,
)


def _is_roll_of_data(x: torch.Tensor, shifts: Any, dims: Any = ()) -> bool:
    """Whether a tensor is rolled of which data decide a size: torch computes the shift within the size."""
    return len(shifts) == max(len(dims), 1) and any(map(torch_sizes.is_of_data, x.shape))


_UNARY = (
    _aten.neg.default,
    _aten.silu.default,
    _aten.gelu.default,
    _aten.relu.default,
    _aten.tanh.default,
    _aten.sigmoid.default,
    _aten.rsqrt.default,
    _aten.cos.default,
    _aten.sin.default,
)

_WITH_NUMBERS = (
    _aten.pow.Tensor_Scalar,
    _aten.elu.default,
    _aten.hardtanh.default,
    _aten.leaky_relu.default,
)

_TAKING: dict[Any, frozenset[str]] = {_aten.scaled_dot_product_attention.default: frozenset({"scale", "enable_gqa"})}
"""Keyword arguments that are looked at, and that the shape of the result does not depend on."""

_FUNCTIONS: dict[Any, tuple[Callable[..., bool], Callable[..., Any]]] = {
    _aten.linear.default: (_is_plain_linear, _linear),
    _aten.scaled_dot_product_attention.default: (is_attention, attention),
    _aten.matmul.default: (_is_plain_matmul, _matmul),
    _aten.layer_norm.default: (_is_plain_layer_norm, _layer_norm),
    _aten.batch_norm.default: (_is_plain_batch_norm, _batch_norm),
    _aten.mean.dim: (_is_plain_mean, _mean),
    _aten.sum.dim_IntList: (_is_plain_mean, _mean),
    _aten.clone.default: (_is_plain_clone, _clone),
    _aten.select_scatter.default: (_is_plain_scatter, _scatter),
    _aten.slice_scatter.default: (_is_plain_scatter, _scatter),
    _aten.copy.default: (_is_plain_copy, _scatter),
    _aten.cross.default: (_is_plain_cross, _cross),
    _aten.view.default: (is_view_of_data, view_of_data),
    _aten.roll.default: (_is_roll_of_data, lambda x, *shifts: _like(x)),
    _aten.im2col.default: (_is_im2col_of_data, _im2col),
    _aten.col2im.default: (_is_col2im_of_data, _col2im),
    _aten.affine_grid_generator.default: (_is_plain_affine_grid, _affine_grid),
    **dict.fromkeys(_SAMPLING, (_is_plain_grid_sampler, _grid_sampler)),
    **OF_PARTS,
    **dict.fromkeys(_BINARY, (_is_plain_binary, _binary)),
    **dict.fromkeys(_RESIZING, (_is_resizing_of_data, _resizing)),
    **dict.fromkeys(_UNARY, (is_plain, _like)),
    **dict.fromkeys(_WITH_NUMBERS, (_is_plain_with_numbers, _with_numbers)),
}
