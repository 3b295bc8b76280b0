"""Operators that give a tensor another shape and leave its elements in order."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import (
    Dim,
    all_known,
    as_dims,
    axes_of,
    axis_of,
    dim_of,
    dims_of,
    is_counted,
    product,
    shape_of,
)
from opbridge.translations.lib.dtypes import is_tensor
from opbridge.translations.lib.reshaping import reshape
from opbridge.translations.registry import builtin


@builtin(
    "aten::view",
    "aten::reshape",
    "aten::_unsafe_view",
    "aten::view_copy",
    "aten::_reshape_copy",
)
def view(self, size, result_sizes: Sequence[int | None] | None = None):
    """view(Tensor(a) self, SymInt[] size) -> Tensor(a); of a size of -1, the capture may know what it is"""
    dims = as_dims(size)
    if result_sizes is not None:
        dims = [
            Dim(known) if dim == -1 and known is not None else dim
            for dim, known in zip(dims, result_sizes, strict=True)
        ]
    return reshape(self, dims)


@builtin("aten::_reshape_alias")
def reshape_alias(self, size, stride):
    """_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a); strides do not matter in ONNX"""
    return reshape(self, size)


@builtin("aten::view_as", "aten::reshape_as")
def view_as(self, other):
    """view_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return reshape(self, dims_of(other))


@builtin("aten::ravel")
def ravel(self):
    """ravel(Tensor(a) self) -> Tensor(a)"""
    return reshape(self, [-1])


@builtin("aten::flatten.using_ints")
def flatten(self, start_dim: int = 0, end_dim: int = -1):
    """flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"""
    rank = len(self.shape)
    if rank == 0:
        return reshape(self, [1])
    start, end = axes_of([start_dim, end_dim], rank)
    dims = dims_of(self)
    return reshape(self, [*dims[:start], product(dims[start : end + 1]), *dims[end + 1 :]])


@builtin("aten::unflatten.int")
def unflatten(self, dim: int, sizes):
    """unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)"""
    axis = axis_of(dim, len(self.shape))
    own, wanted = dims_of(self), as_dims(sizes)
    others = product(dim for dim in wanted if dim != -1)
    if all_known(own[axis], others) and others != 0:
        wanted = [own[axis] // others if dim == -1 else dim for dim in wanted]
    return reshape(self, [*own[:axis], *wanted, *own[axis + 1 :]])


@builtin("aten::squeeze", "aten::squeeze_copy")
def squeeze(self):
    """squeeze(Tensor(a) self) -> Tensor(a)"""
    return _squeeze(self, list(range(len(self.shape))))


@builtin(
    "aten::squeeze.dim", "aten::squeeze.dims", "aten::squeeze_copy.dim", "aten::squeeze_copy.dims", "prims::squeeze"
)
def squeeze_dims(self, dim):
    """squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"""
    return _squeeze(self, axes_of(dim, len(self.shape)))


def _squeeze(x: Any, axes: list[int]) -> Any:
    """Of the dimensions only those of size 1; torch takes no size that is not known to be 1."""
    ones = [axis for axis in axes if axis < len(x.shape) and x.shape[axis] == 1]
    return op.Squeeze(x, ones) if ones else op.Identity(x)


def squeeze_by_size(x: Any, dim: Any = None) -> Any:
    """A squeeze that leaves out the dimensions that have size 1 when the model runs.

    Args:
        x: The value.
        dim: The dimension, or several; all by default.
    """
    rank = len(x.shape)
    asked = range(rank) if dim is None else axes_of(dim, rank)
    sizes = op.Shape(x)
    kept = op.Not(op.Equal(sizes, op.Constant(value_ints=[1])))
    if len(asked) < rank:
        always = ir.tensor([axis not in asked for axis in range(rank)])
        kept = op.Or(kept, op.Constant(value=always))
    return op.Reshape(x, op.Compress(sizes, kept), allowzero=1)


@builtin("aten::set_.source_Tensor", "aten::set.source_Tensor")
def set_to_tensor(self, source):
    """set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)"""
    return op.Identity(source)


@builtin("aten::unsqueeze", "aten::unsqueeze_copy")
def unsqueeze(self, dim: int):
    """unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    return op.Unsqueeze(self, [dim + len(self.shape) + 1 if dim < 0 else dim])


@builtin("aten::expand", "aten::broadcast_to", "aten::expand_copy")
def expand(self, size, implicit: bool = False):
    """expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return expanded(self, size)


def expanded(value: Any, dims: Sequence[Any]) -> Any:
    """Expand to sizes, of which -1 or 1 keeps the value's own.

    ONNX Runtime takes an Expand from 1 to 0 for one that does nothing, so that an empty result is made from nothing.
    """
    wanted = as_dims(dims)
    if 0 in wanted:
        own = [Dim(1)] * (len(wanted) - len(value.shape)) + dims_of(value)
        kept = [mine if dim in (-1, 1) else dim for dim, mine in zip(wanted, own, strict=True)]
        zero = ir.Tensor(np.zeros(1, value.dtype.numpy()), dtype=value.dtype)
        return op.ConstantOfShape(shape_of(kept), value=zero)
    if not wanted:
        return op.Identity(value)
    return op.Expand(value, shape_of(1 if dim == -1 else _never_negative(dim) for dim in wanted))


def _never_negative(dim: Dim) -> Dim:
    """A size, with 1 in the place of a -1 that only a run tells: a number among the values of a tensor."""
    return dim if dim.is_known or is_counted(dim.value) else Dim(op.Abs(dim.value))


@builtin("aten::expand_as")
def expand_as(self, other):
    """expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return op.Expand(self, op.Shape(other))


@builtin("prims::broadcast_in_dim")
def broadcast_in_dim(a, shape, broadcast_dimensions):
    """prims::broadcast_in_dim(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)"""
    added = [axis for axis in range(len(shape)) if axis not in broadcast_dimensions]
    return op.Expand(op.Unsqueeze(a, added) if added else a, shape)


@builtin("aten::broadcast_tensors")
def broadcast_tensors(tensors):
    """broadcast_tensors(Tensor[] tensors) -> Tensor[]"""
    target = common_shape(tensors)
    return [op.Expand(tensor, target) for tensor in tensors]


def common_shape(tensors: Any) -> Any:
    """The shape that tensors are broadcast to: a list of sizes."""
    rank = max(len(tensor.shape) for tensor in tensors)
    dims: list[Dim] = []
    for back in range(rank, 0, -1):
        found = [dim_of(tensor, -back) for tensor in tensors if back <= len(tensor.shape)]
        # A size that is not known may be 1, and a known one decides.
        decisive = [dim for dim in found if dim.is_known and dim != 1] or [dim for dim in found if not dim.is_known]
        dims.append(decisive[0] if decisive else Dim(1))
    return shape_of(dims)


# Order of dimensions


@builtin("aten::permute", "aten::permute_copy", "prims::transpose")
def permute(self, dims):
    """permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    order = axes_of(dims, len(self.shape))
    return op.Transpose(self, perm=order) if order else op.Identity(self)


@builtin(
    "aten::transpose.int",
    "aten::transpose_",
    "aten::transpose_copy.int",
    "aten::swapaxes",
    "aten::swapdims",
)
def transpose(self, dim0: int, dim1: int):
    """transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    rank = len(self.shape)
    order = list(range(rank))
    if rank:
        first, second = axes_of([dim0, dim1], rank)
        order[first], order[second] = second, first
    return permute(self, order)


@builtin("aten::t", "aten::t_copy", "aten::numpy_T", "aten::matrix_H")
def t(self):
    """t(Tensor(a) self) -> Tensor(a)"""
    return permute(self, list(range(len(self.shape)))[::-1])


@builtin("aten::mT", "aten::mH", "aten::adjoint")
def matrix_transpose(self):
    """mT(Tensor(a) self) -> Tensor(a)"""
    return transpose(self, -2, -1)


@builtin("aten::movedim.intlist", "aten::moveaxis.intlist", "aten::movedim.int", "aten::moveaxis.int")
def movedim(self, source, destination):
    """movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    rank = len(self.shape)
    if rank == 0:
        return op.Identity(self)
    moved = dict(zip(axes_of(destination, rank), axes_of(source, rank), strict=True))
    rest = iter(axis for axis in range(rank) if axis not in moved.values())
    return permute(self, [moved[axis] if axis in moved else next(rest) for axis in range(rank)])


# At least so many dimensions


@builtin("aten::atleast_1d", "aten::atleast_1d.Sequence")
def atleast_1d(self):
    """atleast_1d(Tensor self) -> Tensor"""
    return _for_one_or_several(self, lambda x: op.Unsqueeze(x, [0]) if len(x.shape) == 0 else op.Identity(x))


@builtin("aten::atleast_2d", "aten::atleast_2d.Sequence")
def atleast_2d(self):
    """atleast_2d(Tensor self) -> Tensor"""
    axes = {0: [0, 1], 1: [0]}
    return _for_one_or_several(self, functools.partial(_with_ones, axes=axes))


@builtin("aten::atleast_3d", "aten::atleast_3d.Sequence")
def atleast_3d(self):
    """atleast_3d(Tensor self) -> Tensor"""
    axes = {0: [0, 1, 2], 1: [0, 2], 2: [2]}
    return _for_one_or_several(self, functools.partial(_with_ones, axes=axes))


def _with_ones(x: Any, axes: dict[int, list[int]]) -> Any:
    added = axes.get(len(x.shape))
    return op.Unsqueeze(x, added) if added else op.Identity(x)


def _for_one_or_several(value: Any, function: Any) -> Any:
    return function(value) if is_tensor(value) else [function(each) for each in value]
