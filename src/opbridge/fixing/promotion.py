"""PyTorch's type promotion: the one type that operands of several types are computed in.

The rules are those of `torch.result_type`, in ONNX's types, so that repairs need no PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

__all__ = ["promoted", "result_type"]

_D = ir.DataType

_FLOATS = (_D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE)
_INTEGERS = (_D.UINT8, _D.INT8, _D.INT16, _D.INT32, _D.INT64)
_UNSIGNED = (_D.UINT16, _D.UINT32, _D.UINT64)
"""Types that PyTorch promotes with floating types only."""

_CATEGORIES = (frozenset({_D.BOOL}), frozenset({*_INTEGERS, *_UNSIGNED}), frozenset(_FLOATS))


def promoted(first: ir.DataType, second: ir.DataType) -> ir.DataType | None:
    """The type that two real types are promoted to, as `torch.promote_types`; None where PyTorch has none."""
    if first == second:
        return first
    lower, higher = sorted((first, second), key=_category)
    if _category(lower) < 0:
        return None
    if higher in _FLOATS and lower not in _FLOATS:
        return higher
    if higher in _FLOATS:
        return _D.FLOAT if {lower, higher} == {_D.FLOAT16, _D.BFLOAT16} else max(lower, higher, key=_FLOATS.index)
    if lower in _UNSIGNED or higher in _UNSIGNED:
        return None
    if lower == _D.BOOL:
        return higher
    return _D.INT16 if {lower, higher} == {_D.UINT8, _D.INT8} else max(lower, higher, key=_INTEGERS.index)


def result_type(operands: Iterable[tuple[ir.DataType, bool]]) -> ir.DataType | None:
    """The type of a result, as `torch.result_type`; None where PyTorch has none.

    Args:
        operands: The type of each operand, and whether it is a scalar, a tensor without dimensions. Scalars count only
            where their category (bool, integers, floating types) is above that of the tensors with dimensions.
    """
    given = list(operands)
    tensors, scalars = (_all_promoted(dtype for dtype, scalar in given if scalar == wanted) for wanted in (False, True))
    if tensors is None or scalars is None:
        return None
    if not tensors or not scalars:
        return (tensors or scalars)[0]
    return promoted(tensors[0], scalars[0]) if _category(scalars[0]) > _category(tensors[0]) else tensors[0]


def _all_promoted(types: Iterable[ir.DataType]) -> list[ir.DataType] | None:
    """The type that all are promoted to, in a list that is empty where there are none; None where PyTorch has none."""
    found: list[ir.DataType] = []
    for each in types:
        both = promoted(found[0], each) if found else each
        if both is None:
            return None
        found = [both]
    return found


def _category(dtype: ir.DataType) -> int:
    """The place of a type's category; -1: a type that PyTorch does not promote."""
    return next((at for at, types in enumerate(_CATEGORIES) if dtype in types), -1)
