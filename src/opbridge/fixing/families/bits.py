"""BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot and BitShift by arithmetic, bit by bit in a dimension of their own."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_D = ir.DataType
_WIDTHS = {_D.INT8: 8, _D.UINT8: 8, _D.INT16: 16, _D.UINT16: 16, _D.INT32: 32, _D.UINT32: 32, _D.INT64: 64}
_EXACT = 53
_SIGNED = (_D.INT8, _D.INT16, _D.INT32, _D.INT64)


@repair("missing-operator", "no-kernel", operators=["BitwiseNot"])
def by_subtraction(site: Site) -> str:
    """The complement of x is -1 - x, or, without a sign, the greatest number less x."""
    step = site.step()
    dtype = step.dtype(step.data)
    wide, width = _wide(dtype)
    greatest = -1 if dtype in _SIGNED else (1 << width) - 1
    made = step.emit("Sub", step.number(greatest, wide), step.cast(step.data, wide))
    site.put(step, step.cast(made, dtype))
    return "replaced BitwiseNot by a subtraction"


@repair("missing-operator", "no-kernel", operators=["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def bit_by_bit(site: Site) -> str:
    """A negative number has the bits that its complement has not."""
    step = site.step()
    dtype = step.dtype(step.data)
    wide, width = _wide(dtype)
    bits = width - (dtype in _SIGNED)
    shapes = [step.shape(value) for value in step.node.inputs]
    if None in shapes:
        raise Refused("of a tensor of unknown rank")
    ranks = [len(each or ()) for each in shapes]
    powers = step.number(np.asarray([1 << at for at in range(bits)]), wide)
    sides = [_bits(step, value, wide, powers, rank) for value, rank in zip(step.node.inputs, ranks, strict=True)]
    operator = step.node.op_type
    both, negative = (_combined(step, operator, *each) for each in zip(*sides, strict=True))
    # The greatest power of two that a sum has is below the type's limit: a negative result is summed as its complement.
    kept = step.emit("Equal", both, step.emit("Cast", negative, to=int(wide)))
    marked = step.emit("Where", kept, step.number(0, wide), powers)
    # ONNX Runtime sums int64 in double, which holds 53 bits.
    parts = [marked] if bits < _EXACT else [step.sliced(marked, *each, max(ranks)) for each in ((0, 31), (31, bits))]
    sums = [step.reduced("ReduceSum", each, [max(ranks)], keepdims=0) for each in parts]
    total = sums[0] if len(sums) == 1 else step.emit("Add", *sums)
    flat = step.squeezed(negative, [max(ranks)])
    complement = step.emit("Sub", step.number(-1, wide), total)
    site.put(step, step.cast(step.emit("Where", flat, complement, total), dtype))
    return f"replaced {operator} by arithmetic"


def _bits(step: Step, value: ir.Value | None, wide: _D, powers: ir.Value, rank: int) -> tuple[ir.Value, ir.Value]:
    """The bits of each element in a last dimension, as 0 and 1, and whether it is negative, in one of size 1."""
    assert value is not None
    spread = step.unsqueezed(step.cast(value, wide), [rank])
    negative = step.emit("Less", spread, step.number(0, wide))
    shown = step.emit("Where", negative, step.emit("Sub", step.number(-1, wide), spread), spread)
    quotient = step.emit("Div", shown, powers)
    two = step.number(2, wide)
    bit = step.emit("Sub", quotient, step.emit("Mul", step.emit("Div", quotient, two), two))
    return step.emit("Where", negative, step.emit("Sub", step.number(1, wide), bit), bit), negative


def _combined(step: Step, operator: str, one: ir.Value, other: ir.Value) -> ir.Value:
    """Two bits, or two truth values, by an operator."""
    made: ir.Value
    if step.types.dtype(one) == _D.BOOL:
        made = step.emit({"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}[operator], one, other)
        return made
    if operator == "BitwiseAnd":
        made = step.emit("Mul", one, other)
        return made
    if operator == "BitwiseOr":
        made = step.emit("Sub", step.emit("Add", one, other), step.emit("Mul", one, other))
        return made
    apart = step.emit("Sub", one, other)
    made = step.emit("Mul", apart, apart)
    return made


@repair("missing-operator", "no-kernel", operators=["BitShift"])
def by_powers(site: Site) -> str:
    """A shift is a product with a power of two, or a quotient, which a table has."""
    step = site.step()
    dtype = step.dtype(step.data)
    width = {_D.UINT8: 8, _D.UINT16: 16, _D.UINT32: 32}.get(dtype)
    count = step.input(1)
    if width is None or count is None:
        raise Refused("of uint64")
    table = step.number(np.asarray([1 << at for at in range(32)]), _D.INT64)
    power = step.emit("Gather", table, step.cast(count, _D.INT64), axis=0)
    value = step.cast(step.data, _D.INT64)
    if step.get("direction", "LEFT") == "RIGHT":
        made = step.emit("Div", value, power)
    else:
        made = step.emit("Mul", value, power)
        limit = step.number(1 << width, _D.INT64)
        made = step.emit("Sub", made, step.emit("Mul", step.emit("Div", made, limit), limit))
    site.put(step, step.cast(made, dtype))
    return "replaced BitShift by multiplication or division with powers of two"


def _wide(dtype: _D) -> tuple[_D, int]:
    """The type that bits are computed in, and their number."""
    width = _WIDTHS.get(dtype)
    if width is None:
        raise Refused("of uint64")
    return (_D.INT64 if width == 64 or dtype == _D.UINT32 else _D.INT32), width
