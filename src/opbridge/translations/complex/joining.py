"""Complex tensors put together, taken apart and padded.

Most of these take whole pairs: the translation for real tensors is used, with dimensions counted from the front so that
the last one, of real and imaginary part, is left alone.
"""

from __future__ import annotations

from onnxscript import opset18 as op

from opbridge.translations.complex.pairs import axis, each_part, join, parts, rank, real_translation
from opbridge.translations.registry import builtin


@builtin("aten::cat", "aten::concat", "aten::concatenate", complex=True)
def cat(tensors, dim: int = 0):
    """cat(Tensor[] tensors, int dim=0) -> Tensor"""
    # torch lets empty tensors of one dimension stand among others.
    most = max(rank(tensor) for tensor in tensors)
    kept = [tensor for tensor in tensors if rank(tensor) == most]
    return op.Concat(*kept, axis=dim % max(most, 1)) if len(kept) > 1 else kept[0]


@builtin("aten::stack", complex=True)
def stack(tensors, dim: int = 0):
    """stack(Tensor[] tensors, int dim=0) -> Tensor"""
    new = dim % (rank(tensors[0]) + 1)
    return op.Concat(*(op.Unsqueeze(tensor, [new]) for tensor in tensors), axis=new)


@builtin("aten::split.Tensor", "aten::unsafe_split.Tensor", complex=True)
def split(self, split_size, dim: int = 0):
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    return real_translation("aten::split.Tensor")(self, split_size, axis(self, dim))


@builtin("aten::split_with_sizes", "aten::split.sizes", "aten::unsafe_split_with_sizes", complex=True)
def split_with_sizes(self, split_sizes, dim: int = 0):
    """split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return real_translation("aten::split_with_sizes")(self, split_sizes, axis(self, dim))


@builtin("aten::chunk", "aten::unsafe_chunk", complex=True)
def chunk(self, chunks: int, dim: int = 0):
    """chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"""
    return real_translation("aten::chunk")(self, chunks, axis(self, dim))


@builtin("aten::tensor_split.sections", complex=True)
def tensor_split(self, sections, dim: int = 0):
    """tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"""
    return real_translation("aten::tensor_split.sections")(self, sections, axis(self, dim))


@builtin("aten::tensor_split.indices", complex=True)
def tensor_split_indices(self, indices, dim: int = 0):
    """tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"""
    return real_translation("aten::tensor_split.indices")(self, indices, axis(self, dim))


@builtin("aten::unbind.int", complex=True)
def unbind(self, dim: int = 0):
    """unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    return real_translation("aten::unbind.int")(self, axis(self, dim))


@builtin("aten::unfold", complex=True)
def unfold(self, dimension: int, size: int, step: int):
    """unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"""
    return each_part(lambda part: real_translation("aten::unfold")(part, dimension, size, step), self)


# Padding


@builtin("aten::constant_pad_nd", complex=True)
def constant_pad_nd(self, pad, value=0):
    """constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    if value == 0:
        return real_translation("aten::constant_pad_nd")(self, [0, 0, *pad], 0)
    value = complex(value)
    padded = zip(parts(self), (value.real, value.imag), strict=True)
    return join(*(real_translation("aten::constant_pad_nd")(part, pad, fill) for part, fill in padded))


@builtin("aten::reflection_pad1d", "aten::reflection_pad2d", complex=True)
def reflection_pad(self, padding):
    """reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
    return each_part(lambda part: real_translation("aten::reflection_pad1d")(part, padding), self)


@builtin("aten::replication_pad1d", "aten::replication_pad2d", complex=True)
def replication_pad(self, padding):
    """replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
    return each_part(lambda part: real_translation("aten::replication_pad1d")(part, padding), self)


@builtin("aten::pad", complex=True)
def pad(self, pad, mode: str = "constant", value=None):
    """pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor"""
    if mode == "constant":
        return constant_pad_nd(self, pad, value or 0)
    return each_part(lambda part: real_translation("aten::pad")(part, pad, mode), self)
