"""x[...] with tensors and masks, read and written, and writes to a part of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, all_known, dims_of, product, shape_of
from opbridge.translations.lib.scattering import index_along, scatter_elements, scatter_nd
from opbridge.translations.registry import builtin

_BOOL, _INT32, _INT64, _UINT8 = ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT8


@dataclass
class _Index:
    """Positions along one axis: `dims` are their sizes, where they are known."""

    value: Any
    dims: list[Any]


@dataclass
class _Indexed:
    """A tensor and, for each of its axes, the positions that are asked for.

    Attributes:
        x: The tensor.
        dims: Its sizes.
        by_axis: One index, or None, for each axis.
    """

    x: Any
    dims: list[Dim]
    by_axis: list[_Index | None]

    @property
    def axes(self) -> list[int]:
        """The axes that have an index."""
        return [axis for axis, index in enumerate(self.by_axis) if index is not None]

    @property
    def indices(self) -> list[_Index]:
        return [index for index in self.by_axis if index is not None]

    @property
    def adjacent(self) -> bool:
        """Whether the axes follow each other; the indices' axes take their place then, and come first otherwise."""
        return self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))

    @property
    def index_rank(self) -> int:
        return max(len(index.dims) for index in self.indices)


def _prepared(x: Any, indices: Sequence[Any]) -> _Indexed:
    """Masks become the positions of their True elements."""
    dims = dims_of(x)
    by_axis: list[_Index | None] = []
    for given in indices:
        if given is None:
            by_axis.append(None)
        elif given.dtype not in (_BOOL, _UINT8):
            value = given if given.dtype in (_INT32, _INT64) else op.Cast(given, to=_INT64)
            by_axis.append(_Index(value, list(given.shape)))
        elif not given.shape:
            # A single truth value keeps everything, along a new axis, or nothing.
            x = op.Unsqueeze(x, [len(by_axis)])
            dims.insert(len(by_axis), Dim(1))
            by_axis.append(_Index(op.Reshape(op.NonZero(op.Reshape(given, [1])), [-1]), ["?"]))
        else:
            positions = op.NonZero(given)
            rank = len(given.shape)
            rows = [positions] if rank == 1 else op.Split(positions, num_outputs=rank, axis=0)
            by_axis.extend(_Index(op.Reshape(row, [-1]), ["?"]) for row in rows)
    by_axis.extend([None] * (len(dims) - len(by_axis)))
    return _Indexed(x, dims, by_axis)


# Reading


@builtin("aten::index.Tensor", "aten::_unsafe_index.Tensor", "aten::index.Tensor_hacked_twin")
def index(self, indices):
    """index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    asked = _prepared(self, indices)
    axes = asked.axes
    if not axes:
        return op.Identity(asked.x)
    if len(axes) == 1:
        return op.Gather(asked.x, asked.indices[0].value, axis=axes[0])
    if not asked.adjacent:
        others = [axis for axis in range(len(asked.dims)) if axis not in axes]
        return op.GatherND(op.Transpose(asked.x, perm=[*axes, *others]), _stacked(asked.indices))
    blocks = _blocks(asked.indices)
    if blocks is not None:
        return _gathered_in_turn(asked, blocks)
    if axes[0] == 0:
        return op.GatherND(asked.x, _stacked(asked.indices))
    merged, place = _with_axes_merged(asked)
    return op.Gather(merged, place, axis=axes[0])


def _blocks(indices: Sequence[_Index]) -> list[range] | None:
    """The result's axes that each index alone decides on, in order; None where two indices share one.

    Such indices (rows of shape (h, 1) and columns of shape (w,), say) can be gathered one after the other.
    """
    rank = max(len(index.dims) for index in indices)
    blocks, end = [], 0
    for index in indices:
        own = [axis + rank - len(index.dims) for axis, dim in enumerate(index.dims) if dim != 1]
        if own and own[0] < end:
            return None
        start, end = end, (own[-1] + 1 if own else end)
        blocks.append(range(start, end))
    return blocks if end == rank else None


def _gathered_in_turn(asked: _Indexed, blocks: Sequence[range]) -> Any:
    x, axis = asked.x, asked.axes[0]
    rank = asked.index_rank
    for index, block in zip(asked.indices, blocks, strict=True):
        lead = rank - len(index.dims)
        value = op.Unsqueeze(index.value, list(range(lead))) if lead else index.value
        drop = [each for each in range(rank) if each not in block]
        x = op.Gather(x, op.Squeeze(value, drop) if drop else value, axis=axis)
        axis += len(block)
    return x


def _stacked(indices: Sequence[_Index]) -> Any:
    """Indices of a common shape as rows of coordinates, the index of GatherND and ScatterND."""
    values = [op.Cast(index.value, to=_INT64) for index in indices]
    if any([str(dim) for dim in index.dims] != [str(dim) for dim in indices[0].dims] for index in indices) or any(
        "?" in index.dims for index in indices
    ):
        if len(values) > 1:
            common = values[0]
            for value in values[1:]:
                common = common + value
            shape = op.Shape(common)
            values = [op.Expand(value, shape) for value in values]
    columns = [op.Unsqueeze(value, [-1]) for value in values]
    return columns[0] if len(columns) == 1 else op.Concat(*columns, axis=-1)


def _with_axes_merged(asked: _Indexed) -> tuple[Any, Any]:
    """The tensor with adjacent indexed axes as one, and the position along that."""
    axes = asked.axes
    lengths = [asked.dims[axis] for axis in axes]
    place: Any = None
    for index, length in zip(asked.indices, lengths, strict=True):
        # Mod counts negative positions from the end.
        value = op.Cast(index.value, to=_INT64)
        if not _is_known_positive(value):
            value = op.Mod(value, length.value)
        place = value if place is None else place * length.value + value
    before, after = asked.dims[: axes[0]], asked.dims[axes[-1] + 1 :]
    merged = product(lengths)
    # One size may be left to Reshape, where it would have to be computed.
    merged = merged if merged.is_known or all_known(*before, *after) else Dim(-1)
    return op.Reshape(asked.x, shape_of([*before, merged, *after])), place


def _is_known_positive(value: Any) -> bool:
    data = getattr(value, "const_value", None)
    return data is not None and bool((data.numpy() >= 0).all())


# Writing


@builtin("aten::index_put", "aten::_unsafe_index_put", "aten::_index_put_impl", "aten::index_put.hacked_twin")
def index_put(self, indices, values, accumulate: bool = False, unsafe: bool = False):
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    masks = [given for given in indices if given is not None]
    if len(masks) == 1 and masks[0].dtype in (_BOOL, _UINT8) and masks[0].shape:
        first = next(axis for axis, given in enumerate(indices) if given is not None)
        later = len(self.shape) - first - len(masks[0].shape)
        if _is_single(values) or len(values.shape) <= later or values.shape[-1 - later] == 1:
            return _masked_put(self, masks[0], later, values, accumulate)
    asked = _prepared(self, indices)
    if not asked.axes:
        written = op.Expand(values, op.Shape(self))
        return self + written if accumulate else written
    reduction = "add" if accumulate else "none"
    rank, axes = len(asked.dims), asked.axes
    if asked.adjacent and axes[0] > 0:
        result = _put_along_axis(asked, values, reduction)
    else:
        others = [axis for axis in range(rank) if axis not in axes]
        order = [*axes, *others]
        moved = order != list(range(rank))
        x = op.Transpose(asked.x, perm=order) if moved else asked.x
        places = _stacked(asked.indices)
        shape = _shape_around([], op.Shape(places, end=-1), [asked.dims[axis] for axis in others])
        result = scatter_nd(x, places, op.Expand(values, shape), reduction)
        if moved:
            result = op.Transpose(result, perm=[order.index(axis) for axis in range(rank)])
    return result if rank == len(self.shape) else op.Reshape(result, op.Shape(self))


def _is_single(values: Any) -> bool:
    return all(dim == 1 for dim in values.shape)


def _masked_put(x: Any, mask: Any, later: int, value: Any, accumulate: bool) -> Any:
    """One value everywhere that a mask says, or one for each place in the axes before and after it.

    Args:
        x: The tensor.
        mask: The mask.
        later: How many axes of the tensor come after those of the mask.
        value: The value, without an axis for the elements of the mask, or with one of size 1.
        accumulate: Whether it is added.
    """
    rank = len(mask.shape)
    truth = op.Cast(mask, to=_BOOL)
    if later:
        truth = op.Unsqueeze(truth, list(range(rank, rank + later)))
    if value.shape and _is_single(value):
        value = op.Reshape(value, [])
    elif len(value.shape) > later and rank > 1:
        at = len(value.shape) - later
        value = op.Unsqueeze(value, list(range(at, at + rank - 1)))
    return op.Where(truth, x + value if accumulate else value, x)


def _put_along_axis(asked: _Indexed, values: Any, reduction: str) -> Any:
    """Puts values at positions along adjacent axes that are not the first: without moving the tensor's axes around."""
    axes = asked.axes
    before, after = asked.dims[: axes[0]], asked.dims[axes[-1] + 1 :]
    if len(axes) > 1:
        x, place = _with_axes_merged(asked)
    else:
        x, place = asked.x, op.Cast(asked.indices[0].value, to=_INT64)
    # The values in the shape of what reading there would give, and then with the indices' axes as one.
    values = op.Expand(values, _shape_around(before, op.Shape(place), after))
    if asked.index_rank != 1:
        place = op.Reshape(place, [-1])
        values = op.Reshape(values, _shape_around(before, op.Shape(place), after))
    rank = len(before) + 1 + len(after)
    result = scatter_elements(x, index_along(place, axes[0], rank, op.Shape(values)), values, axes[0], reduction)
    return op.Reshape(result, op.Shape(asked.x)) if len(axes) > 1 else result


def _shape_around(before: Sequence[Any], middle: Any, after: Sequence[Any]) -> Any:
    """A shape of sizes around those of a vector."""
    parts = [op.Reshape(shape_of(before), [-1])] if before else []
    parts.append(middle)
    if after:
        parts.append(op.Reshape(shape_of(after), [-1]))
    return op.Concat(*parts, axis=0)
