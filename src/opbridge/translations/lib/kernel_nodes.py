"""Nodes that a built-in kernel runs, for operators that ONNX lacks at some opset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from opbridge.errors import TranslationError

__all__ = ["DOMAIN", "kernel"]

DOMAIN = "opbridge_ops"


def kernel(op_type: str, inputs: Sequence[Any], **attributes: int | Sequence[int]) -> Any:
    """The output of a node of a built-in kernel.

    Args:
        op_type: The kernel's operator in `opbridge_ops`.
        inputs: Tensors, None where one is left out; the first is there.
        **attributes: The rest of its arguments, by name.

    Raises:
        TranslationError: another exporter than opbridge's is at work, or an argument is no number.
    """
    builder = getattr(inputs[0], "builder", None)
    if builder is None:
        raise TranslationError(
            f"This opset has no operator for it, and the kernel {DOMAIN}::{op_type} is supported only by "
            "opbridge.export. Use opbridge.export, or a newer opset."
        )
    builder.domains.setdefault(DOMAIN, 1)
    settings = {name: _attribute(name, value) for name, value in attributes.items()}
    (output,) = builder.node(op_type, list(inputs), settings, [None], domain=DOMAIN)
    return output


def _attribute(name: str, value: int | Sequence[int]) -> ir.Attr:
    if isinstance(value, int):
        return ir.AttrInt64(name, value)
    if isinstance(value, (list, tuple)) and all(isinstance(each, int) for each in value):
        return ir.AttrInt64s(name, list(value))
    raise TranslationError(
        f"its argument '{name}' is computed from dynamic sizes, but must be a number. Make them static in "
        "dynamic_shapes, or pass a number."
    )
