"""Padding: with a constant, mirrored, with the edge, or around."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, dim_of, maximum, minimum
from opbridge.translations.lib.dtypes import cast_like, is_number
from opbridge.translations.registry import builtin


@builtin("aten::pad")
def pad(self, pad, mode: str = "constant", value=None):
    """pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor"""
    if mode == "constant":
        return constant_pad_nd(self, pad, 0 if value is None else value)
    if mode == "circular":
        return _pad_circular(self, pad)
    return _pad_from_inside(self, pad, {"reflect": "reflect", "replicate": "edge"}[mode])


@builtin("aten::constant_pad_nd")
def constant_pad_nd(self, pad, value=0):
    """constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    if all(Dim(amount) == 0 for amount in pad):
        return op.Identity(self)
    if is_number(value, 0):
        return op.Pad(self, _amounts(self, pad))
    return op.Pad(self, _amounts(self, pad), cast_like(value, self))


@builtin("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d")
def reflection_pad(self, padding):
    """reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return _pad_from_inside(self, padding, "reflect")


@builtin("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d")
def replication_pad(self, padding):
    """replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return _pad_from_inside(self, padding, "edge")


def _amounts(self: Any, pad: Any) -> list[Any]:
    """ONNX's order: before all dimensions, then after all of them; torch goes from the last dimension to the first."""
    untouched = [0] * (len(self.shape) - len(pad) // 2)
    return [*untouched, *reversed(pad[0::2]), *untouched, *reversed(pad[1::2])]


def _pad_from_inside(self: Any, pad: Any, mode: str) -> Any:
    grown = [maximum(amount, 0) for amount in pad]
    # What negative amounts cut away may still be mirrored on the other side, so it is cut last.
    is_padded = any(amount != 0 for amount in grown)
    result = op.Pad(self, _amounts(self, [amount.value for amount in grown]), mode=mode) if is_padded else self
    return _crop(result, pad)


def _crop(value: Any, pad: Any) -> Any:
    """Cuts off what negative amounts say."""
    rank, cuts = len(value.shape), []
    for k, (before, after) in enumerate(_pairs([minimum(amount, 0) for amount in pad])):
        if before != 0 or after != 0:
            axis = rank - 1 - k
            end = after if after.is_known else dim_of(value, axis) + after
            cuts.append(((-before).value, 2**62 if after == 0 else end.value, axis))
    if not cuts:
        return value
    starts, ends, axes = zip(*cuts, strict=True)
    return op.Slice(value, list(starts), list(ends), list(axes))


def _pad_circular(self: Any, pad: Any) -> Any:
    """Each side continues with what is left of the other one."""
    result = _crop(self, pad)
    for k, (before, after) in enumerate(_pairs([maximum(amount, 0) for amount in pad])):
        axis = len(self.shape) - 1 - k
        parts = [result]
        if before != 0:
            start = -before if before.is_known else dim_of(result, axis) - before
            parts.insert(0, op.Slice(result, [start.value], [2**62], [axis]))
        if after != 0:
            parts.append(op.Slice(result, [0], [after.value], [axis]))
        if len(parts) > 1:
            result = op.Concat(*parts, axis=axis)
    return result


def _pairs(pad: list[Dim]) -> Iterator[tuple[Dim, Dim]]:
    """What torch's amounts say for the last dimension, the one before it and so on: before it and after it."""
    return zip(pad[0::2], pad[1::2], strict=True)
