"""The attributes of nodes in a TorchScript graph, as attributes of ONNX nodes."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from opbridge.errors import TranslationError
from opbridge.onnx.torch_tensor import TorchTensor

__all__ = ["SUFFIXES", "attribute_kind", "onnx_attribute"]

SUFFIXES = {"i": "int", "f": "float", "s": "string", "is": "ints", "fs": "floats", "ss": "strings"}
"""The suffix of `value_` in the attributes of a Constant, by kind."""


def attribute_kind(node: Any, name: str) -> str:
    """The kind of an attribute: a letter, and an s for a list. torch calls a list of floats "c"."""
    kind: str = node.kindOf(name)
    return {"c": "fs"}.get(kind, kind)


def onnx_attribute(node: Any, name: str, key: str | None = None) -> ir.Attr:
    """The ONNX attribute for an attribute of a graph's node, under its own name or `key`.

    Raises:
        TranslationError: ONNX has no attributes of this kind.
    """
    kind = attribute_kind(node, name)
    value = getattr(node, kind)(name)
    key = key or name
    if kind == "i":
        return ir.AttrInt64(key, value)
    if kind == "f":
        return ir.AttrFloat32(key, value)
    if kind == "s":
        return ir.AttrString(key, value)
    if kind == "t":
        return ir.AttrTensor(key, TorchTensor(value))
    if kind == "is":
        return ir.AttrInt64s(key, list(value))
    if kind == "fs":
        return ir.AttrFloat32s(key, list(value))
    if kind == "ss":
        return ir.AttrStrings(key, list(value))
    if kind == "ts":
        return ir.AttrTensors(key, [TorchTensor(item) for item in value])
    raise TranslationError(
        f"It set the attribute '{key}' to a value of a kind ('{kind}') that is not supported in ONNX."
    )
