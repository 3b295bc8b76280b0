"""Everything that opbridge takes from onnxscript's and torchlib's insides.

Checked on onnxscript 0.7.2 with torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import onnxscript
from onnxscript import evaluator

from opbridge.base.locks import process_state
from opbridge.onnx import downgrade

__all__ = [
    "call_signature",
    "evaluating_with",
    "function_definitions",
    "is_torchlib",
    "parameters",
    "required_parameters",
    "split_arguments",
    "torchlib_entries",
]

_TORCHLIB_DOMAIN = "pkg.onnxscript.torch_lib"


@contextlib.contextmanager
def evaluating_with(builder: Any) -> Iterator[None]:
    """onnxscript hands the operators that are called meanwhile to `builder.eval_op` and `builder.eval_function`."""
    with process_state, evaluator.default_as(builder):
        yield


def is_torchlib(function: Any) -> bool:
    """Whether an onnxscript function is part of torchlib, whose functions are written to be run in place."""
    return function.opset.domain.startswith(_TORCHLIB_DOMAIN)


def is_onnx_function(function: Any) -> bool:
    """Whether this is a compiled onnxscript function (`@onnxscript.script`), as opposed to plain Python."""
    return isinstance(function, onnxscript.OnnxFunction)


def function_definitions(function: onnxscript.OnnxFunction, opset: int) -> list[ir.Function]:
    """The ONNX functions that a call needs: the function and all that it calls, their bodies at the model's opset."""
    definitions = []
    for called in [function, *function.function_ir.get_called_functions().values()]:
        definition = ir.serde.deserialize_function(called.to_function_proto())
        if "" in definition.opset_imports:
            downgrade.check_function(definition, opset)
            definition.opset_imports[""] = opset
        definitions.append(definition)
    return definitions


def split_arguments(
    function: onnxscript.OnnxFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The inputs and the attributes of a call to an onnxscript function; attributes at their default are left out."""
    given = dict(zip((parameter.name for parameter in function.op_signature.params), args, strict=False))
    given.update(kwargs)
    inputs: list[Any] = []
    attributes: dict[str, Any] = {}
    for parameter in function.op_signature.params:
        if isinstance(parameter, ir.schemas.Parameter):
            inputs.append(given.get(parameter.name))
        elif given.get(parameter.name) is not None:
            value = given[parameter.name]
            attributes[parameter.name] = float(value) if parameter.type == ir.AttributeType.FLOAT else value
    return inputs, attributes


def call_signature(function: Any) -> inspect.Signature:
    """The parameters of a translation, whatever onnxscript has made of it."""
    plain = inspect.unwrap(getattr(function, "func", None) or getattr(function, "function", None) or function)
    return inspect.signature(plain)


def required_parameters(function: Any) -> tuple[str, ...]:
    """The names of a translation's parameters that have no default."""
    return tuple(
        parameter.name
        for parameter in call_signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    )


@functools.cache
def parameters(function: Any) -> tuple[tuple[str, ...], bool, bool]:
    """A translation's parameters: their names, and whether it takes *args and **kwargs beside them."""
    names, more, named = [], False, False
    for parameter in call_signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            more = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            named = True
        else:
            names.append(parameter.name)
    return tuple(names), more, named


@functools.cache
def torchlib_entries() -> tuple[tuple[str, Any, int, bool], ...]:
    """torchlib's translations: (operator, function, the opset that it came with, whether it is for complex inputs).

    The registry that the onnxscript package keeps and the smaller one inside torch are read together, torch's first, as
    torch.onnx does it.
    """
    from onnxscript.function_libs.torch_lib import ops, registration

    del ops  # Imported for what it registers.
    entries = []
    for operator, function, opset, is_complex in _torch_entries():
        entries.append((operator, function, opset, is_complex))
    for operator, overloads in registration.default_registry.items():
        if operator.startswith("internal::"):
            continue
        for is_complex, functions in ((False, overloads.overloads), (True, overloads.complex)):
            entries.extend((operator, function, 18, is_complex) for function in functions)
    return tuple(entries)


def _torch_entries() -> Iterator[tuple[str, Any, int, bool]]:
    """The translations that torch itself carries. Those of higher-order operators are left out: ours replace them."""
    from opbridge.base.torch_private import torch_operators

    for meta in torch_operators.exporter_translations():
        operator = torch_operators.operator_name(meta.fx_target)
        if operator is None or operator.startswith(("onnx_symbolic::", "higher_order::")):
            continue
        yield operator, meta.onnx_function, meta.opset_introduced, meta.is_complex
