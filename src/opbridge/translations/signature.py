"""Whether a translation's parameters are those of the operator that it is for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from opbridge.base.sources import of_function
from opbridge.base.wording import counted
from opbridge.onnx import onnxscript_private

__all__ = ["IGNORED_ARGUMENTS", "mismatch", "symbolic_mismatch"]

IGNORED_ARGUMENTS = frozenset(
    {"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "copy", "out", "requires_grad"}
)
"""Arguments that do not change a result in ONNX. A translation may leave them out of its parameters."""


def mismatch(function: Any, schema: Any) -> str | None:
    """What is wrong with a translation's parameters, or None.

    Arguments are passed in the schema's order. Parameters may have any names; names of the schema in another order, and
    too few or too many parameters, are refused.

    Args:
        function: The translation.
        schema: The operator's `torch._C.FunctionSchema`, or None where it has none.
    """
    if schema is None:
        return None
    names, takes_more, takes_named = onnxscript_private.parameters(function)
    declared = [argument.name for argument in schema.arguments]
    needed = [name for name in declared if name not in IGNORED_ARGUMENTS]
    place = of_function(getattr(function, "function", function))
    given = ", ".join(names)
    shown = f"The parameters of the translation {place} are ({given}), but the schema of the operator is {schema}."
    known = [name for name in names if name in declared]
    if known != sorted(known, key=declared.index):
        return f"{shown} Arguments are passed in the schema's order; put the parameters in that order."
    if not takes_more and not takes_named and len(names) < len(needed):
        left_out = [name for name in needed if name not in names][len(names) - len(known) :] or needed[len(names) :]
        return f"{shown} It has no parameter for {', '.join(left_out)}."
    required = onnxscript_private.required_parameters(function)
    if len(required) > len(declared):
        return f"{shown} It has {counted(len(required) - len(declared), 'parameter')} too many."
    return None


def symbolic_mismatch(function: Callable[..., Any], schema: Any) -> str | None:
    """What is wrong with the parameters of a symbolic function, or None.

    After `g`, all arguments of the schema are passed by position, those that the schema has as keywords included.

    Args:
        function: The symbolic function.
        schema: The operator's `torch._C.FunctionSchema`, or None where it has none.
    """
    if schema is None:
        return None
    kind = inspect.Parameter
    parameters = list(inspect.signature(function).parameters.values())
    positional = [each for each in parameters if each.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]
    takes_more = any(each.kind is kind.VAR_POSITIONAL for each in parameters)
    names = [each.name for each in positional[1:]]
    declared = [argument.name for argument in schema.arguments]
    shown = (
        f"The parameters of the symbolic function {of_function(function)} are {inspect.signature(function)}, but "
        f"the schema of the operator is {schema}."
    )
    if not positional and not takes_more:
        return f"{shown} Its first parameter must be g, the graph."
    known = [name for name in names if name in declared]
    if known != sorted(known, key=declared.index):
        return f"{shown} Arguments are passed in the schema's order; put the parameters in that order."
    if not takes_more and len(names) < len(declared):
        lacking = ", ".join(declared[len(names) :])
        return f"{shown} All {len(declared)} arguments are passed by position; it has no parameter for {lacking}."
    required = [each for each in positional[1:] if each.default is kind.empty]
    if len(required) > len(declared):
        return f"{shown} It has {counted(len(required) - len(declared), 'parameter')} too many."
    named = [each.name for each in parameters if each.kind is kind.KEYWORD_ONLY and each.default is kind.empty]
    if named:
        return f"{shown} It requires {', '.join(named)} by name, but arguments are passed by position."
    return None
