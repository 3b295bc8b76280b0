"""Complex tensors in other shapes.

A pair stays together: the translation for real tensors is used, with dimensions counted from the front so that the
last one, of real and imaginary part, is left alone.
"""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.complex.pairs import axes, axis, conjugate, each_part, rank, real_translation
from opbridge.translations.registry import builtin


@builtin("aten::view", "aten::reshape", "aten::_unsafe_view", "aten::_reshape_copy", "aten::view_copy", complex=True)
def view(self, size):
    """view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return real_translation("aten::view")(self, [*size, 2])


@builtin("aten::flatten.using_ints", complex=True)
def flatten(self, start_dim=0, end_dim=-1):
    """flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"""
    count = rank(self)
    if count == 0:  # the pairs have a dimension, so that nothing would be added
        return op.Unsqueeze(self, [0])
    return real_translation("aten::flatten.using_ints")(self, start_dim % count, end_dim % count)


@builtin("aten::unflatten.int", complex=True)
def unflatten(self, dim: int, sizes):
    """unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)"""
    return real_translation("aten::unflatten.int")(self, axis(self, dim), sizes)


@builtin("aten::unsqueeze", complex=True)
def unsqueeze(self, dim: int):
    """unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    return real_translation("aten::unsqueeze")(self, dim % (rank(self) + 1))


@builtin("aten::squeeze", complex=True)
def squeeze(self):
    """squeeze(Tensor(a) self) -> Tensor(a)"""
    ones = [dim for dim, size in enumerate(self.shape[:-1]) if size == 1]
    return op.Squeeze(self, ones) if ones else self


@builtin("aten::squeeze.dim", complex=True)
def squeeze_dim(self, dim: int):
    """squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)"""
    return real_translation("aten::squeeze.dim")(self, axis(self, dim))


@builtin("aten::squeeze.dims", complex=True)
def squeeze_dims(self, dim):
    """squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"""
    return real_translation("aten::squeeze.dims")(self, axes(self, dim))


@builtin("aten::expand", "aten::expand_copy", "aten::broadcast_to", complex=True)
def expand(self, size, implicit: bool = False):
    """expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return real_translation("aten::expand")(self, [*size, 2])


@builtin("aten::repeat", "aten::tile", complex=True)
def repeat(self, repeats):
    """repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    times = [*[1] * (rank(self) - len(repeats)), *repeats, 1]
    return real_translation("aten::repeat")(self, times)


@builtin("aten::repeat_interleave.self_int", complex=True)
def repeat_interleave(self, repeats, dim=None, output_size=None):
    """repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    repeat_real = real_translation("aten::repeat_interleave.self_int")
    return each_part(lambda part: repeat_real(part, repeats, dim, output_size), self)


@builtin("aten::repeat_interleave.self_Tensor", complex=True)
def repeat_interleave_counts(self, repeats, dim=None, output_size=None):
    """repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None)
    -> Tensor
    """
    repeat_real = real_translation("aten::repeat_interleave.self_Tensor")
    return each_part(lambda part: repeat_real(part, repeats, dim, output_size), self)


@builtin("aten::as_strided", complex=True)
def as_strided(self, size, stride, storage_offset=None):
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    return each_part(lambda part: real_translation("aten::as_strided")(part, size, stride, storage_offset), self)


# Dimensions in another order


@builtin("aten::permute", "aten::permute_copy", complex=True)
def permute(self, dims):
    """permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    count = rank(self)
    return op.Transpose(self, perm=[*(dim % count for dim in dims), count])


@builtin("aten::transpose.int", complex=True)
def transpose(self, dim0: int, dim1: int):
    """transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    return real_translation("aten::transpose.int")(self, axis(self, dim0), axis(self, dim1))


@builtin("aten::movedim.int", complex=True)
def movedim(self, source: int, destination: int):
    """movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)"""
    return real_translation("aten::movedim.int")(self, axis(self, source), axis(self, destination))


@builtin("aten::movedim.intlist", complex=True)
def movedim_list(self, source, destination):
    """movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    return real_translation("aten::movedim.intlist")(self, axes(self, source), axes(self, destination))


@builtin("aten::t", "aten::t_copy", "aten::numpy_T", complex=True)
def t(self):
    """t(Tensor(a) self) -> Tensor(a)"""
    dims = rank(self)
    return op.Transpose(self, perm=[*reversed(range(dims)), dims])


@builtin("aten::mT", complex=True)
def mT(self):
    """mT(Tensor(a) self) -> Tensor(a)"""
    return _transposed(self)


@builtin("aten::mH", "aten::adjoint", complex=True)
def mH(self):
    """mH(Tensor(a) self) -> Tensor(a)"""
    return conjugate(_transposed(self))


def _transposed(x: Any) -> Any:
    """The last two dimensions swapped."""
    dims = rank(x)
    return op.Transpose(x, perm=[*range(dims - 2), dims - 1, dims - 2, dims])


# Elements in another order


@builtin("aten::flip", complex=True)
def flip(self, dims):
    """flip(Tensor self, int[] dims) -> Tensor"""
    return real_translation("aten::flip")(self, axes(self, dims))


@builtin("aten::rot90", complex=True)
def rot90(self, k: int = 1, dims=(0, 1)):
    """rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor"""
    return real_translation("aten::rot90")(self, k, axes(self, dims))


@builtin("aten::roll", complex=True)
def roll(self, shifts, dims=()):
    """roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    return each_part(lambda part: real_translation("aten::roll")(part, shifts, dims), self)


# Sizes


@builtin("aten::sym_size.int", complex=True)
def sym_size(self, dim: int):
    """sym_size.int(Tensor self, int dim) -> SymInt"""
    return op.Gather(op.Shape(self), dim % rank(self))


@builtin("aten::sym_numel", complex=True)
def sym_numel(self):
    """sym_numel(Tensor self) -> SymInt"""
    return op.ReduceProd(op.Shape(self, end=-1), keepdims=0)
