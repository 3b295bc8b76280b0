"""Padding: with a constant, mirrored, with the edge, or around."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, all_known
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


def _known_amounts(pad: Any, mode: str) -> list[int]:
    if not all_known(*pad):
        raise TranslationError(
            f"Padding of mode {mode} by an amount that is known only when the model runs has no translation, since its "
            "sign decides what is done. Make the amounts Python ints, or pad by indexing."
        )
    return list(pad)


def _pad_from_inside(self: Any, pad: Any, mode: str) -> Any:
    pad = _known_amounts(pad, mode)
    grown = [max(amount, 0) for amount in pad]
    # What negative amounts cut away may still be mirrored on the other side, so it is cut last.
    result = op.Pad(self, _amounts(self, grown), mode=mode) if any(grown) else self
    return _crop(result, len(self.shape), [min(amount, 0) for amount in pad])


def _crop(value: Any, rank: int, pad: list[int]) -> Any:
    """Cuts off what negative amounts say."""
    cuts = [
        (-before, after or 2**62, rank - 1 - k)
        for k, (before, after) in enumerate(zip(pad[0::2], pad[1::2], strict=True))
        if before or after
    ]
    if not cuts:
        return value
    starts, ends, axes = zip(*cuts, strict=True)
    return op.Slice(value, list(starts), list(ends), list(axes))


def _pad_circular(self: Any, pad: Any) -> Any:
    """Each side continues with what is left of the other one."""
    pad, rank = _known_amounts(pad, "circular"), len(self.shape)
    result = _crop(self, rank, [min(amount, 0) for amount in pad])
    for k, (before, after) in enumerate(zip(pad[0::2], pad[1::2], strict=True)):
        axis = rank - 1 - k
        parts = [result]
        if before > 0:
            parts.insert(0, op.Slice(result, [-before], [2**62], [axis]))
        if after > 0:
            parts.append(op.Slice(result, [0], [after], [axis]))
        if len(parts) > 1:
            result = op.Concat(*parts, axis=axis)
    return result
