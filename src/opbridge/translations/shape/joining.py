"""Operators that put tensors together and take them apart. Lists of tensors are Python lists, never ONNX sequences."""

from __future__ import annotations

import itertools
import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, all_known, as_dims, axis_of, dim_of, is_counted, minimum, shape_of
from opbridge.translations.lib.dtypes import cast, cast_like
from opbridge.translations.lib.promotion import promote, result_type
from opbridge.translations.lib.reshaping import ENDLESS, reshape, take_slice
from opbridge.translations.registry import builtin
from opbridge.translations.shape.shape import atleast_1d, atleast_2d, atleast_3d

# Taking apart


@builtin("aten::split.Tensor", "aten::unsafe_split.Tensor", "aten::split_copy.Tensor")
def split(self, split_size, dim: int = 0, result_count: int | None = None):
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(dim, len(self.shape))
    part = Dim(split_size)
    if result_count is not None and not all_known(dim_of(self, axis), part):
        # The capture holds for sizes that give this number of parts.
        edges = [0, *(part * index for index in range(1, result_count)), ENDLESS]
        return [take_slice(self, axis, start, end) for start, end in itertools.pairwise(edges)]
    total = _known_size(self, axis, "split")
    if not part.is_known:
        raise TranslationError(
            "split by a size that is computed at run time returns an unknown number of tensors. Split by a list of "
            "sizes."
        )
    if total == 0 or part == 0:
        return [op.Identity(self)]
    return _split_by_lengths(self, axis, [minimum(part, total - start) for start in range(0, total, int(part))])


@builtin(
    "aten::split_with_sizes",
    "aten::split.sizes",
    "aten::unsafe_split_with_sizes",
    "aten::split_with_sizes_copy",
)
def split_with_sizes(self, split_sizes, dim: int = 0):
    """split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return _split_by_lengths(self, axis_of(dim, len(self.shape)), as_dims(split_sizes))


@builtin("aten::chunk", "aten::unsafe_chunk")
def chunk(self, chunks: int, dim: int = 0):
    """chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(dim, len(self.shape))
    total = dim_of(self, axis)
    part = (total + (chunks - 1)) // chunks
    if not total.is_known:
        # The capture holds for as many chunks as the example gave, which may be fewer: those after them are not read.
        edges = [0, *(part * index for index in range(1, chunks)), ENDLESS]
        return [take_slice(self, axis, start, end) for start, end in itertools.pairwise(edges)]
    if total == 0:
        return [op.Identity(self) for _ in range(chunks)]
    return split(self, int(part), axis)


@builtin("aten::tensor_split.sections", "aten::tensor_split.indices")
def tensor_split(self, indices_or_sections, dim: int = 0):
    """tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(dim, len(self.shape))
    if isinstance(indices_or_sections, (list, tuple)):
        edges = [0, *indices_or_sections]
        ends = [*indices_or_sections, ENDLESS]
        return [take_slice(self, axis, start, end) for start, end in zip(edges, ends, strict=True)]
    sections = int(Dim(indices_or_sections))
    total = dim_of(self, axis)
    if total.is_known:
        small, more = divmod(int(total), sections)
        return _split_by_lengths(self, axis, as_dims(small + (part < more) for part in range(sections)))
    # The first total % sections parts have an element more than the rest.
    part_size, longer = total // sections, total % sections
    ends = [part_size * part + minimum(longer, part) for part in range(1, sections)]
    return [take_slice(self, axis, start, end) for start, end in itertools.pairwise([Dim(0), *ends, Dim(ENDLESS)])]


@builtin("aten::tensor_split.tensor_indices_or_sections")
def tensor_split_tensor(self, tensor_indices_or_sections, dim: int = 0):
    """tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0)
    -> Tensor(a)[]
    """
    known = tensor_indices_or_sections.const_value
    if known is not None:
        return tensor_split(self, known.numpy().tolist(), dim)
    places = tensor_indices_or_sections
    if len(places.shape) == 0 or not dim_of(places, 0).is_known:
        raise TranslationError(
            "tensor_split by a tensor that depends on the inputs returns an unknown number of tensors. Split by a "
            "number or a list."
        )
    edges = [0, *(op.Gather(places, index) for index in range(places.shape[0])), ENDLESS]
    axis = axis_of(dim, len(self.shape))
    return [take_slice(self, axis, start, end) for start, end in itertools.pairwise(edges)]


@builtin("aten::hsplit.int", "aten::hsplit.array")
def hsplit(self, sections):
    """hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return tensor_split(self, sections, 0 if len(self.shape) == 1 else 1)


@builtin("aten::vsplit.int", "aten::vsplit.array")
def vsplit(self, sections):
    """vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return tensor_split(self, sections, 0)


@builtin("aten::dsplit.int", "aten::dsplit.array")
def dsplit(self, sections):
    """dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return tensor_split(self, sections, 2)


@builtin("aten::unbind.int", "aten::unbind_copy.int")
def unbind(self, dim: int = 0, result_count: int | None = None):
    """unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(dim, len(self.shape))
    count = _known_size(self, axis, "unbind") if result_count is None else result_count
    return [op.Gather(self, index, axis=axis) for index in range(count)]


def _known_size(x: Any, axis: int, what: str) -> int:
    dim = dim_of(x, axis)
    if not dim.is_known:
        raise TranslationError(
            f"{what} along a dynamic dimension returns an unknown number of tensors. Make the dimension static, or "
            "use slices."
        )
    return int(dim)


def _split_by_lengths(x: Any, axis: int, lengths: list[Dim]) -> list[Any]:
    """Parts of these lengths, one after the other.

    Where values of tensors decide on lengths, Split raises an error where they do not add up, as torch does.
    """
    if any(not length.is_known and not is_counted(length.value) for length in lengths):
        return _listed(op.Split(x, shape_of(lengths), axis=axis))
    if len(lengths) == 1:
        return [op.Identity(x)]
    if all_known(*lengths) and _is_even([int(length) for length in lengths]):
        return list(op.Split(x, axis=axis, num_outputs=len(lengths)))
    parts, start = [], Dim(0)
    for length in lengths:
        end = start + length
        parts.append(take_slice(x, axis, start, end))
        start = end
    return parts


def _listed(found: Any) -> list[Any]:
    """What an operator gives that may have one output, as a list."""
    return [found] if isinstance(found, ir.Value) else list(found)


def _is_even(lengths: list[int]) -> bool:
    """Whether Split cuts like this by itself: equal parts, of which the last may be shorter, but not empty."""
    part = math.ceil(sum(lengths) / len(lengths))
    return part > 0 and all(length == part for length in lengths[:-1]) and 0 < lengths[-1] <= part


# Putting together


@builtin("aten::cat", "aten::concat", "aten::concatenate")
def cat(tensors, dim: int = 0):
    """cat(Tensor[] tensors, int dim=0) -> Tensor"""
    dtype = result_type(*tensors)
    # torch leaves tensors of shape (0,) out, whatever the rank of the others.
    kept = [tensor for tensor in tensors if not (len(tensor.shape) == 1 and tensor.shape[0] == 0)]
    if not kept:
        return cast(tensors[0], dtype)
    joined = promote(*kept, dtype=dtype)
    return op.Concat(*joined, axis=axis_of(dim, len(kept[0].shape))) if len(joined) > 1 else op.Identity(joined[0])


@builtin("aten::stack", "aten::_stack")
def stack(tensors, dim: int = 0):
    """stack(Tensor[] tensors, int dim=0) -> Tensor"""
    axis = dim + len(tensors[0].shape) + 1 if dim < 0 else dim
    wide = [op.Unsqueeze(tensor, [axis]) for tensor in promote(*tensors)]
    return op.Concat(*wide, axis=axis) if len(wide) > 1 else wide[0]


@builtin("aten::hstack")
def hstack(tensors):
    """hstack(Tensor[] tensors) -> Tensor"""
    rank = len(tensors[0].shape)
    return _concat_reshaped(tensors, atleast_1d, 0 if rank <= 1 else 1)


@builtin("aten::vstack", "aten::row_stack")
def vstack(tensors):
    """vstack(Tensor[] tensors) -> Tensor"""
    return _concat_reshaped(tensors, atleast_2d, 0)


@builtin("aten::dstack")
def dstack(tensors):
    """dstack(Tensor[] tensors) -> Tensor"""
    return _concat_reshaped(tensors, atleast_3d, 2)


@builtin("aten::column_stack")
def column_stack(tensors):
    """column_stack(Tensor[] tensors) -> Tensor"""
    columns = {0: [0, 1], 1: [1]}
    return _concat_reshaped(
        tensors,
        lambda x: op.Unsqueeze(x, columns[len(x.shape)]) if len(x.shape) in columns else op.Identity(x),
        1,
    )


def _concat_reshaped(tensors: Any, shaped: Any, axis: int) -> Any:
    """Tensors, each brought to the rank that a stack needs, along one dimension."""
    dtype = result_type(*tensors)
    parts = promote(*(shaped(tensor) for tensor in tensors), dtype=dtype)
    return op.Concat(*parts, axis=axis) if len(parts) > 1 else op.Identity(parts[0])


@builtin("aten::meshgrid", "aten::meshgrid.indexing")
def meshgrid(tensors, indexing: str = "ij"):
    """meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"""
    return _coordinate_grids(tensors, indexing)


def _coordinate_grids(tensors: Any, indexing: str = "ij") -> list[Any]:
    counts = [dim_of(tensor, 0) if len(tensor.shape) else 1 for tensor in tensors]
    order = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        order[0], order[1] = 1, 0
    target = [counts[axis] for axis in order]
    grids = []
    for position, tensor in enumerate(promote(*tensors)):
        dims = [1] * len(tensors)
        dims[order.index(position)] = -1
        grids.append(op.Expand(op.Reshape(tensor, dims), shape_of(target)))
    return grids


@builtin("aten::cartesian_prod")
def cartesian_prod(tensors):
    """cartesian_prod(Tensor[] tensors) -> Tensor"""
    if len(tensors) == 1:
        return op.Identity(tensors[0])
    columns = [op.Reshape(grid, [-1, 1]) for grid in _coordinate_grids(tensors)]
    return op.Concat(*columns, axis=1)


@builtin("aten::combinations")
def combinations(self, r: int = 2, with_replacement: bool = False):
    """combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor"""
    count = _known_size(self, 0, "combinations")
    if r == 0:
        return op.Slice(self, [0], [0])
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = [list(row) for row in choose(range(count), r)]
    if not rows:
        return reshape(op.Slice(self, [0], [0]), [0, r])
    return op.Gather(self, op.Constant(value=ir.tensor(rows, dtype=ir.DataType.INT64)))


@builtin("aten::block_diag")
def block_diag(tensors):
    """block_diag(Tensor[] tensors) -> Tensor"""
    blocks = promote(*(atleast_2d(tensor) for tensor in tensors), dtype=result_type(*tensors))
    widths = [dim_of(tensor, -1) if len(tensor.shape) else 1 for tensor in tensors]
    heights = [dim_of(tensor, 0) if len(tensor.shape) == 2 else 1 for tensor in tensors]
    rows = []
    for position, (block, height) in enumerate(zip(blocks, heights, strict=True)):
        before, after = sum(widths[:position]), sum(widths[position + 1 :])
        row = [op.Expand(cast_like(0, block), shape_of([height, width])) for width in (before, after)]
        rows.append(op.Concat(row[0], block, row[1], axis=1))
    return op.Concat(*rows, axis=0) if len(rows) > 1 else rows[0]
