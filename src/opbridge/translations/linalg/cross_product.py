"""The cross product."""

from __future__ import annotations

import itertools
from typing import Any

from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import dim_of, dims_of, positions
from opbridge.translations.lib.promotion import promote
from opbridge.translations.registry import builtin


@builtin("aten::linalg_cross")
def linalg_cross(self, other, dim: int = -1):
    """linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor"""
    left, right = ([*op.Split(each, axis=dim, num_outputs=3)] for each in promote(self, other))
    parts = [op.Sub(op.Mul(left[i - 2], right[i - 1]), op.Mul(left[i - 1], right[i - 2])) for i in range(3)]
    return op.Concat(*parts, axis=dim)


@builtin("aten::cross")
def cross(self, other, dim=None):
    """cross(Tensor self, Tensor other, int? dim=None) -> Tensor"""
    if dim is not None:
        return linalg_cross(self, other, dim)
    # Along the first dimension of `self` that has the size 3. A dimension before it may have that size in some runs.
    sizes = dims_of(self)
    axis = next((axis for axis, size in enumerate(sizes) if size == 3), None)
    if axis is None:
        raise TranslationError("torch.cross requires a dimension whose size is known at export to be 3. Pass dim=.")
    result = linalg_cross(self, other, axis)
    for earlier, size in reversed([*enumerate(itertools.takewhile(lambda size: size != 3, sizes))]):
        if not size.is_known:
            result = op.Where(op.Equal(size.value, 3), _cross_of_any_size(self, other, earlier), result)
    return result


def _cross_of_any_size(x: Any, y: Any, axis: int) -> Any:
    """The formula of the cross product along an axis of any size; only for a size of 3 it is that."""
    x, y = promote(x, y)

    def turned(value: Any, by: int) -> Any:
        count = dim_of(value, axis)
        return op.Gather(value, op.Mod(op.Add(positions(count), by), count.value), axis=axis)

    return op.Sub(op.Mul(turned(x, 1), turned(y, 2)), op.Mul(turned(x, 2), turned(y, 1)))
