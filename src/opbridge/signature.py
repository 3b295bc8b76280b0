"""Whether a translation's parameters are those of the operator that it is for."""

from __future__ import annotations

from typing import Any

from opbridge import _onnxscript

__all__ = ["HOLDING", "mismatch"]

HOLDING = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "copy", "out"})
"""Arguments that say where and how torch holds a tensor. A translation that has no use for them leaves them out."""


def mismatch(function: Any, schema: Any) -> str | None:
    """What is wrong with a translation's parameters, or None.

    Arguments are passed in the schema's order. Names of one's own are fine; names of the schema in another order, and
    too few or too many parameters, are not.

    Args:
        function: The translation.
        schema: The operator's `torch._C.FunctionSchema`, or None where it has none.
    """
    if schema is None:
        return None
    names, takes_more, takes_named = _onnxscript.parameters(function)
    declared = [argument.name for argument in schema.arguments]
    needed = [name for name in declared if name not in HOLDING]
    shown = f"The translation's parameters are ({', '.join(names)}), and the operator's schema is {schema}."
    known = [name for name in names if name in declared]
    if known != sorted(known, key=declared.index):
        return f"{shown} Arguments are passed in the schema's order; put the parameters in that order."
    if not takes_more and not takes_named and len(names) < len(needed):
        left_out = [name for name in needed if name not in names][len(names) - len(known) :] or needed[len(names) :]
        return f"{shown} It has no parameter for {', '.join(left_out)}."
    required = _onnxscript.required_parameters(function)
    if len(required) > len(declared):
        return f"{shown} It has {len(required) - len(declared)} parameters that the operator does not have."
    return None
