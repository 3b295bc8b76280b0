"""Complex tensors indexed, picked from and written to in part.

Where an index picks whole pairs, the translation for real tensors is taken, with dimensions counted from the front.
Where it picks single elements, that translation is applied to the real and to the imaginary part.
"""

from __future__ import annotations

from onnxscript import opset18 as op

from opbridge.translations.complex.comparison import ne
from opbridge.translations.complex.pairs import (
    axis,
    each_part,
    is_number,
    number,
    rank,
    real_translation,
)
from opbridge.translations.registry import builtin

# Along one dimension


@builtin("aten::select.int", complex=True)
def select(self, dim: int, index):
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    return real_translation("aten::select.int")(self, axis(self, dim), index)


@builtin("aten::slice.Tensor", complex=True)
def slice_(self, dim: int = 0, start=None, end=None, step: int = 1):
    """slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    return real_translation("aten::slice.Tensor")(self, axis(self, dim), start, end, step)


@builtin("aten::narrow", complex=True)
def narrow(self, dim: int, start, length):
    """narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    return real_translation("aten::narrow")(self, axis(self, dim), start, length)


@builtin("aten::select_scatter", complex=True)
def select_scatter(self, src, dim: int, index):
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    return real_translation("aten::select_scatter")(self, src, axis(self, dim), index)


@builtin("aten::slice_scatter", complex=True)
def slice_scatter(self, src, dim: int = 0, start=None, end=None, step=1):
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)
    -> Tensor
    """
    return real_translation("aten::slice_scatter")(self, src, axis(self, dim), start, end, step)


# By indices


@builtin("aten::index.Tensor", complex=True)
def index(self, indices):
    """index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    return real_translation("aten::index.Tensor")(self, indices)


@builtin("aten::index_put", complex=True)
def index_put(self, indices, values, accumulate: bool = False):
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return real_translation("aten::index_put")(self, indices, values, accumulate)


@builtin("aten::index_select", complex=True)
def index_select(self, dim: int, index):
    """index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    return each_part(lambda part: real_translation("aten::index_select")(part, dim, index), self)


@builtin("aten::index_copy", complex=True)
def index_copy(self, dim: int, index, source):
    """index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    copy_real = real_translation("aten::index_copy")
    return each_part(lambda part, given: copy_real(part, dim, index, given), self, source)


@builtin("aten::index_add", complex=True)
def index_add(self, dim: int, index, source, alpha=1):
    """index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    add_real = real_translation("aten::index_add")
    return each_part(lambda part, given: add_real(part, dim, index, given, alpha=alpha), self, source)


@builtin("aten::gather", complex=True)
def gather(self, dim: int, index, sparse_grad: bool = False):
    """gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    return each_part(lambda part: real_translation("aten::gather")(part, dim, index), self)


@builtin("aten::scatter.src", complex=True)
def scatter(self, dim: int, index, src):
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    scatter_real = real_translation("aten::scatter.src")
    return each_part(lambda part, given: scatter_real(part, dim, index, given), self, src)


@builtin("aten::scatter_add", complex=True)
def scatter_add(self, dim: int, index, src):
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    add_real = real_translation("aten::scatter_add")
    return each_part(lambda part, given: add_real(part, dim, index, given), self, src)


@builtin("aten::take", complex=True)
def take(self, index):
    """take(Tensor self, Tensor index) -> Tensor"""
    return each_part(lambda part: real_translation("aten::take")(part, index), self)


@builtin("aten::put", complex=True)
def put(self, index, source, accumulate: bool = False):
    """put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    put_real = real_translation("aten::put")
    return each_part(lambda part, given: put_real(part, index, given, accumulate), self, source)


# By masks


@builtin("aten::where.self", "aten::where.ScalarSelf", "aten::where.ScalarOther", complex=True)
def where(condition, self, other):
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    if is_number(self):
        self = number(self, other)
    return op.Where(op.Unsqueeze(condition, [-1]), self, number(other, self) if is_number(other) else other)


@builtin("aten::masked_fill.Scalar", "aten::masked_fill.Tensor", complex=True)
def masked_fill(self, mask, value):
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return op.Where(op.Unsqueeze(mask, [-1]), number(value, self) if is_number(value) else value, self)


@builtin("aten::masked_select", complex=True)
def masked_select(self, mask):
    """masked_select(Tensor self, Tensor mask) -> Tensor"""
    if rank(self) == 0 and len(mask.shape) == 0:
        self = op.Unsqueeze(self, [0])
    pairs = op.Expand(self, op.Concat(op.Shape(mask), [2], axis=0))
    mask = op.Expand(mask, op.Shape(op.Gather(pairs, 0, axis=-1)))
    return op.GatherND(pairs, op.Transpose(op.NonZero(mask), perm=[1, 0]))


@builtin("aten::masked_scatter", complex=True)
def masked_scatter(self, mask, source):
    """masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    scatter_real = real_translation("aten::masked_scatter")
    return each_part(lambda part, given: scatter_real(part, mask, given), self, source)


@builtin("aten::nonzero", complex=True)
def nonzero(self):
    """nonzero(Tensor self) -> Tensor"""
    return real_translation("aten::nonzero")(ne(self, 0))


# Triangles and diagonals


@builtin("aten::tril", complex=True)
def tril(self, diagonal=0):
    """tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return each_part(lambda part: real_translation("aten::tril")(part, diagonal), self)


@builtin("aten::triu", complex=True)
def triu(self, diagonal=0):
    """triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return each_part(lambda part: real_translation("aten::triu")(part, diagonal), self)


@builtin("aten::diagonal", "aten::diagonal_copy", complex=True)
def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    return each_part(lambda part: real_translation("aten::diagonal")(part, offset, dim1, dim2), self)


@builtin("aten::diag_embed", complex=True)
def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"""
    return each_part(lambda part: real_translation("aten::diag_embed")(part, offset, dim1, dim2), self)


@builtin("aten::diagonal_scatter", complex=True)
def diagonal_scatter(self, src, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    scatter_real = real_translation("aten::diagonal_scatter")
    return each_part(lambda part, given: scatter_real(part, given, offset, dim1, dim2), self, src)
