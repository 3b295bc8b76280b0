"""Complex tensors rearranged, joined and filled.

A pair stays together: the translation for real tensors is taken, with dimensions counted from the front so that the
last one, of the parts, is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.catalogue import default_registry
from opbridge.translations.complex.pairs import (
    COMPLEX,
    conjugate,
    is_number,
    join,
    magnitude,
    multiply,
    number,
    parts,
    rank,
    shaped,
)
from opbridge.translations.lib.dtypes import FLOATS, const
from opbridge.translations.registry import builtin

# Operators of one tensor, and what their further arguments are: a dimension or several (with what torch takes where it
# is left out), or something else, passed on as it is.
_ALONG = {
    "aten::transpose.int": "dim dim",
    "aten::unsqueeze": "new_dim",
    "aten::squeeze.dim": "dim",
    "aten::squeeze.dims": "dims",
    "aten::select.int": "dim other",
    "aten::slice.Tensor": "dim=0 other other other",
    "aten::narrow": "dim other other",
    "aten::split.Tensor": "other dim=0",
    "aten::split_with_sizes": "other dim=0",
    "aten::split.sizes": "other dim=0",
    "aten::unsafe_split.Tensor": "other dim=0",
    "aten::unsafe_split_with_sizes": "other dim=0",
    "aten::chunk": "other dim=0",
    "aten::unsafe_chunk": "other dim=0",
    "aten::tensor_split.sections": "other dim=0",
    "aten::tensor_split.indices": "other dim=0",
    "aten::unbind.int": "dim=0",
    "aten::flip": "dims",
    "aten::unflatten.int": "dim other",
    "aten::movedim.int": "dim dim",
    "aten::movedim.intlist": "dims dims",
    "aten::rot90": "other=1 dims",
    "aten::select_scatter": "other dim other",
    "aten::slice_scatter": "other dim=0 other other other",
    "aten::index.Tensor": "other",
    "aten::index_put": "other other other",
}

# Operators that treat the real and the imaginary part alike, and for which the pairs are taken apart.
_BY_PARTS = (
    "aten::reflection_pad1d",
    "aten::reflection_pad2d",
    "aten::replication_pad1d",
    "aten::replication_pad2d",
    "aten::_pad_circular",
    "aten::tril",
    "aten::triu",
    "aten::diag_embed",
    "aten::unfold",
    "aten::take",
    "aten::gather",
    "aten::roll",
    "aten::index_copy",
    "aten::index_select",
    "aten::repeat_interleave.self_int",
    "aten::repeat_interleave.self_Tensor",
    "aten::scatter_add",
    "aten::index_add",
    "aten::as_strided",
    "aten::diagonal",
    "aten::diagonal_copy",
    "aten::diagonal_scatter",
    "aten::cumsum",
    "aten::scatter.src",
    "aten::put",
    "aten::masked_scatter",
)


def _real(operator: str) -> Callable[..., Any]:
    """The translation of an operator for real tensors."""
    found = default_registry().find(operator, 18)
    if found is None:
        raise TranslationError(f"{operator} has no translation for real tensors to build on.")
    return found.function


def _along(operator: str, kinds: list[str]) -> Callable[..., Any]:
    def translate(self, *args, **keywords):
        """The translation for real tensors, of pairs."""
        left_out = [int(kind.partition("=")[2]) for kind in kinds[len(args) :] if "=" in kind]
        given = [_counted(value, kind, rank(self)) for value, kind in zip([*args, *left_out], kinds, strict=False)]
        return _real(operator)(self, *given)

    return translate


def _by_parts(operator: str) -> Callable[..., Any]:
    def translate(self, *args, **keywords):
        """The translation for real tensors, of the real and of the imaginary part."""
        keywords.pop("dtype", None)
        split = [parts(value) if _is_pair(value) else (value, value) for value in args]
        real = _real(operator)
        return join(*(real(part, *values, **keywords) for part, *values in zip(parts(self), *split, strict=True)))

    return translate


def _is_pair(value: Any) -> bool:
    return isinstance(value, ir.Value) and value.dtype in FLOATS


def _counted(value: Any, kind: str, dims: int) -> Any:
    """An argument whose dimensions are counted from the front."""
    kind = kind.partition("=")[0]
    if kind == "other" or value is None:
        return value
    count = max(dims, 1) if kind != "new_dim" else dims + 1
    if isinstance(value, (list, tuple)):
        return [each % count for each in value]
    return value % count


for _operator, _kinds in _ALONG.items():
    builtin(_operator, complex=True)(_along(_operator, _kinds.split()))
for _operator in _BY_PARTS:
    builtin(_operator, complex=True)(_by_parts(_operator))


@builtin("aten::clone", "aten::contiguous", "aten::detach", "aten::alias", "aten::lift_fresh_copy", complex=True)
@builtin("aten::alias_copy", "aten::detach_copy", complex=True)
def clone(self):
    """clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return self


@builtin("aten::copy", complex=True)
def copy(self, src):
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    return op.Expand(src, op.Shape(self))


@builtin("aten::_to_copy", complex=True)
def _to_copy(self, dtype=None):
    """_to_copy(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _converted(self, dtype)


@builtin("aten::to.dtype", "aten::to.dtype_layout", complex=True)
def to_dtype(self, dtype=None):
    """to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, ...) -> Tensor(a)"""
    return _converted(self, dtype)


@builtin("aten::to.device", complex=True)
def to_device(self, device, dtype):
    """to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, ...) -> Tensor(a)"""
    return _converted(self, dtype)


def _converted(self: Any, dtype: Any) -> Any:
    """A complex tensor as another type; a real one takes the real part."""
    if dtype in (None, -1) or dtype in COMPLEX:
        return self
    real = op.Gather(self, 0, axis=-1)
    return op.Cast(real, to=dtype)


# Sizes


@builtin("aten::flatten.using_ints", complex=True)
def flatten(self, start_dim=0, end_dim=-1):
    """flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"""
    count = rank(self)
    if count == 0:  # the pairs have a dimension, so that nothing would be added
        return op.Unsqueeze(self, [0])
    return _real("aten::flatten.using_ints")(self, start_dim % count, end_dim % count)


@builtin("aten::permute", "aten::permute_copy", complex=True)
def permute(self, dims):
    """permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    count = rank(self)
    return op.Transpose(self, perm=[*(dim % count for dim in dims), count])


@builtin("aten::view", "aten::reshape", "aten::_unsafe_view", "aten::_reshape_copy", "aten::view_copy", complex=True)
def view(self, size):
    """view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return _real("aten::view")(self, [*size, 2])


@builtin("aten::expand", "aten::expand_copy", "aten::broadcast_to", complex=True)
def expand(self, size, implicit: bool = False):
    """expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return _real("aten::expand")(self, [*size, 2])


@builtin("aten::repeat", "aten::tile", complex=True)
def repeat(self, repeats):
    """repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    times = [*[1] * (rank(self) - len(repeats)), *repeats, 1]
    return _real("aten::repeat")(self, times)


@builtin("aten::squeeze", complex=True)
def squeeze(self):
    """squeeze(Tensor(a) self) -> Tensor(a)"""
    ones = [axis for axis, dim in enumerate(self.shape[:-1]) if dim == 1]
    return op.Squeeze(self, ones) if ones else self


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


@builtin("aten::sym_size.int", complex=True)
def sym_size(self, dim: int):
    """sym_size.int(Tensor self, int dim) -> SymInt"""
    return op.Gather(op.Shape(self), dim % rank(self))


@builtin("aten::sym_numel", complex=True)
def sym_numel(self):
    """sym_numel(Tensor self) -> SymInt"""
    return op.ReduceProd(op.Shape(self, end=-1), keepdims=0)


# Joining and choosing


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
    axis = dim % (rank(tensors[0]) + 1)
    return op.Concat(*(op.Unsqueeze(tensor, [axis]) for tensor in tensors), axis=axis)


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


@builtin("aten::constant_pad_nd", complex=True)
def constant_pad_nd(self, pad, value=0):
    """constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    if value == 0:
        return _real("aten::constant_pad_nd")(self, [0, 0, *pad], 0)
    value = complex(value)
    padded = zip(parts(self), (value.real, value.imag), strict=True)
    return join(*(_real("aten::constant_pad_nd")(part, pad, fill) for part, fill in padded))


@builtin("aten::pad", complex=True)
def pad(self, pad, mode: str = "constant", value=None):
    """pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor"""
    if mode == "constant":
        return constant_pad_nd(self, pad, value or 0)
    return join(*(_real("aten::pad")(part, pad, mode) for part in parts(self)))


@builtin("aten::masked_select", complex=True)
def masked_select(self, mask):
    """masked_select(Tensor self, Tensor mask) -> Tensor"""
    if rank(self) == 0 and len(mask.shape) == 0:
        self = op.Unsqueeze(self, [0])
    pairs = op.Expand(self, op.Concat(op.Shape(mask), [2], axis=0))
    mask = op.Expand(mask, op.Shape(op.Gather(pairs, 0, axis=-1)))
    return op.GatherND(pairs, op.Transpose(op.NonZero(mask), perm=[1, 0]))


@builtin("aten::nonzero", complex=True)
def nonzero(self):
    """nonzero(Tensor self) -> Tensor"""
    return _real("aten::nonzero")(shaped(ne(self, 0), self.shape[:-1]))


# Filling


@builtin("aten::zeros_like", "aten::empty_like", "aten::zero", complex=True)
def zeros_like(self, dtype=None):
    """zeros_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(const(0, self.dtype), op.Shape(self))


@builtin("aten::ones_like", complex=True)
def ones_like(self, dtype=None):
    """ones_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(number(1, self), op.Shape(self))


@builtin("aten::full_like", "aten::fill.Scalar", complex=True)
def full_like(self, fill_value, dtype=None):
    """full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(number(fill_value, self), op.Shape(self))


@builtin("aten::new_full", complex=True)
def new_full(self, size, fill_value, dtype=None):
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(number(fill_value, self), [*size, 2])


@builtin("aten::new_zeros", "aten::new_empty", complex=True)
def new_zeros(self, size, dtype=None):
    """new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(const([0, 0], self.dtype), [*size, 2])


@builtin("aten::new_ones", complex=True)
def new_ones(self, size, dtype=None):
    """new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(const([1, 0], self.dtype), [*size, 2])


@builtin("aten::full", complex=True)
def full(size, fill_value, dtype=None):
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    value = complex(fill_value)
    is_double = dtype == ir.DataType.COMPLEX128
    pair = const([value.real, value.imag], ir.DataType.DOUBLE if is_double else ir.DataType.FLOAT)
    return op.Expand(pair, [*size, 2])


@builtin("aten::scalar_tensor", complex=True)
def scalar_tensor(s, dtype=None):
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full([], s, dtype)


@builtin("aten::zeros", "aten::empty.memory_format", complex=True)
def zeros(size, dtype=None):
    """zeros(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full(size, 0, dtype)


@builtin("aten::ones", complex=True)
def ones(size, dtype=None):
    """ones(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full(size, 1, dtype)


# Reductions and comparisons


@builtin("aten::sum", complex=True)
def sum_all(self, dtype=None):
    """sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _reduced("aten::sum.dim_IntList", self, None, False)


@builtin("aten::sum.dim_IntList", complex=True)
def sum_dim(self, dim, keepdim: bool = False, dtype=None):
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _reduced("aten::sum.dim_IntList", self, dim, keepdim)


@builtin("aten::mean", complex=True)
def mean_all(self, dtype=None):
    """mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _reduced("aten::mean.dim", self, None, False)


@builtin("aten::mean.dim", complex=True)
def mean_dim(self, dim, keepdim: bool = False, dtype=None):
    """mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _reduced("aten::mean.dim", self, dim, keepdim)


@builtin("aten::prod.dim_int", complex=True)
def prod_dim(self, dim: int, keepdim: bool = False, dtype=None):
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    if rank(self) == 0:
        return self
    axis = dim % rank(self)
    result = _product(self, axis, self.shape[axis])
    return result if keepdim else op.Squeeze(result, [axis])


@builtin("aten::prod", complex=True)
def prod(self, dtype=None):
    """prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    if not all(isinstance(dim, int) for dim in self.shape):
        raise TranslationError("The product of a complex tensor is translated where its size is known at export.")
    count = math.prod(self.shape[:-1])
    return op.Reshape(_product(op.Reshape(self, [count, 2], allowzero=1), 0, count), [2])


def _product(x: Any, axis: int, count: Any) -> Any:
    """The product along an axis, which stays with size 1: halves are multiplied until there is one element."""
    if not isinstance(count, int):
        raise TranslationError("The product of a complex tensor is translated where its size is known at export.")
    if count == 0:
        shape = op.Concat(op.Shape(x, end=axis), [1], op.Shape(x, start=axis + 1), axis=0)
        return op.Expand(number(1, x), shape)
    while count > 1:
        half = count // 2
        first, second = (op.Slice(x, [start], [start + half], [axis]) for start in (0, half))
        rest = [op.Slice(x, [2 * half], [count], [axis])] if count % 2 else []
        x = op.Concat(multiply(first, second), *rest, axis=axis) if rest else multiply(first, second)
        count -= half
    return x


@builtin("aten::cumprod", complex=True)
def cumprod(self, dim: int, dtype=None):
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    axis = dim % max(rank(self), 1)
    count = self.shape[axis] if rank(self) else 1
    if not isinstance(count, int):
        raise TranslationError("The product of a complex tensor is translated where its size is known at export.")
    result, step = self, 1
    while step < count:  # each element times that `step` places before it
        before = op.Slice(result, [0], [count - step], [axis])
        ones = op.Expand(number(1, self), op.Shape(op.Slice(result, [0], [step], [axis])))
        result, step = multiply(result, op.Concat(ones, before, axis=axis)), step * 2
    return result


@builtin("aten::var.correction", complex=True)
def var(self, dim=None, correction=None, keepdim: bool = False):
    """var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    first, second = (
        _real("aten::var.correction")(part, dim, correction=correction, keepdim=keepdim) for part in parts(self)
    )
    return first + second


@builtin("aten::std.correction", complex=True)
def std(self, dim=None, correction=None, keepdim: bool = False):
    """std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return op.Sqrt(var(self, dim, correction, keepdim))


@builtin("aten::var_mean.correction", complex=True)
def var_mean(self, dim=None, correction=None, keepdim: bool = False):
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor,
    Tensor)"""
    return var(self, dim, correction, keepdim), _reduced("aten::mean.dim", self, dim, keepdim)


@builtin("aten::std_mean.correction", complex=True)
def std_mean(self, dim=None, correction=None, keepdim: bool = False):
    """std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor,
    Tensor)"""
    return std(self, dim, correction, keepdim), _reduced("aten::mean.dim", self, dim, keepdim)


def _reduced(operator: str, x: Any, dim: Any, keepdim: bool) -> Any:
    """A reduction over some dimensions, or all of them."""
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank(x)))
    if rank(x) == 0:
        return x
    return _real(operator)(x, [each % rank(x) for each in dims], keepdim)


@builtin("aten::eq.Tensor", "aten::eq.Scalar", complex=True)
def eq(self, other):
    """eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _both(op.Equal(self, number(other, self) if is_number(other) else other))


@builtin("aten::ne.Tensor", "aten::ne.Scalar", complex=True)
def ne(self, other):
    """ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Not(eq(self, other))


@builtin("aten::isnan", complex=True)
def isnan(self):
    """isnan(Tensor self) -> Tensor"""
    return op.Not(_both(op.Not(op.IsNaN(self))))


@builtin("aten::isinf", complex=True)
def isinf(self):
    """isinf(Tensor self) -> Tensor"""
    return op.Not(_both(op.Not(op.Abs(self) == float("inf"))))


@builtin("aten::isfinite", complex=True)
def isfinite(self):
    """isfinite(Tensor self) -> Tensor"""
    return _both(op.Abs(self) < float("inf"))


@builtin("aten::logical_not", complex=True)
def logical_not(self):
    """logical_not(Tensor self) -> Tensor"""
    return eq(self, 0)


@builtin("aten::logical_and", complex=True)
def logical_and(self, other):
    """logical_and(Tensor self, Tensor other) -> Tensor"""
    return op.And(ne(self, 0), ne(other, 0))


@builtin("aten::logical_or", complex=True)
def logical_or(self, other):
    """logical_or(Tensor self, Tensor other) -> Tensor"""
    return op.Or(ne(self, 0), ne(other, 0))


@builtin("aten::logical_xor", complex=True)
def logical_xor(self, other):
    """logical_xor(Tensor self, Tensor other) -> Tensor"""
    return op.Xor(ne(self, 0), ne(other, 0))


@builtin("aten::isclose", complex=True)
def isclose(self, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    """isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"""
    gap = magnitude(self - other)
    near = op.And(gap <= magnitude(other) * rtol + atol, gap < float("inf"))
    result = op.Or(eq(self, other), near)
    return op.Or(result, op.And(isnan(self), isnan(other))) if equal_nan else result


def _both(flags: Any) -> Any:
    """Whether something holds for the real part and for the imaginary one."""
    return op.And(op.Gather(flags, 0, axis=-1), op.Gather(flags, 1, axis=-1))
