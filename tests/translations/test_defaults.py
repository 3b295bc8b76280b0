"""The defaults of all translations' parameters are those of the operators' schemas."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from helpers.schema_calls import translated_operators

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torch_operators
from opbridge.onnx import onnxscript_private
from opbridge.translations.catalogue import default_registry
from opbridge.translations.registry import Translation
from opbridge.translations.signature import IGNORED_ARGUMENTS, mismatch

# Their defaults are never used, for a reason each.
_UNUSED = {
    "aten::blackman_window": "its size is an int, so that it is computed at export",
    "aten::hamming_window": "its size is an int, so that it is computed at export",
    "aten::hann_window": "its size is an int, so that it is computed at export",
    "aten::tensor.bool": "an operator of TorchScript, which no capture holds",
    "aten::tensor.float": "an operator of TorchScript, which no capture holds",
    "aten::tensor.int": "an operator of TorchScript, which no capture holds",
}

_NO_DTYPE = -1  # torchlib's translations are given it where no dtype is asked for


def _used_entries() -> list[tuple[str, Translation]]:
    """The translations that some opset takes; of those of one opset, opbridge's comes before torchlib's."""
    found = []
    registry = default_registry()
    for operator in translated_operators():
        entries = registry.of(operator)
        for entry in entries:
            ours = any(other.origin == "opbridge" and other.complex == entry.complex for other in entries)
            if (entry.origin == "opbridge" or not ours) and not entry.complex:
                found.append((operator, entry))
    return found


def test_defaults_are_those_of_the_schemas() -> None:
    wrong = [
        f"{operator} ({entry.origin}): {name}={given!r}, the schema has {wanted!r}"
        for operator, entry in _used_entries()
        if operator not in _UNUSED
        for name, given, wanted in _other_defaults(operator, entry)
    ]
    assert not wrong, "\n".join(wrong)


def test_reasons_are_needed() -> None:
    entries = dict(_used_entries())
    assert not [operator for operator in _UNUSED if not _other_defaults(operator, entries[operator])]


def test_every_argument_has_a_parameter() -> None:
    wrong = {
        operator: reason
        for operator, entry in _used_entries()
        if (reason := mismatch(entry.function, torch_operators.operator_object(operator)._schema))
    }
    assert not wrong, wrong


def _other_defaults(operator: str, entry: Translation) -> list[tuple[str, Any, Any]]:
    """The parameters whose default is another one than the schema's, with both."""
    arguments = torch_operators.operator_object(operator)._schema.arguments
    names = [argument.name for argument in arguments]
    parameters = [
        each
        for each in onnxscript_private.call_signature(entry.function).parameters.values()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    found = []
    for position, parameter in enumerate(parameters):
        index = names.index(parameter.name) if parameter.name in names else position
        if index >= len(arguments):
            # A parameter for other translations that call this one; the translator never gives it.
            if parameter.default is parameter.empty:
                found.append((parameter.name, "none", "no such argument"))
            continue
        argument = arguments[index]
        # Where the schema has no default, the argument is always given.
        if argument.name not in IGNORED_ARGUMENTS and argument.has_default_value():
            wanted = argument.default_value
            if not _is_default(parameter, argument, wanted, entry.origin):
                given = "none" if parameter.default is inspect.Parameter.empty else parameter.default
                found.append((parameter.name, given, wanted))
    return found


def _is_default(parameter: inspect.Parameter, argument: Any, wanted: Any, origin: str) -> bool:
    given = parameter.default
    if given is inspect.Parameter.empty:
        return False
    if argument.name.endswith("dtype"):
        if wanted is None:
            return given is None or (given == _NO_DTYPE and origin == "torchlib")
        return given == int(onnx_dtype(_dtype_of_code(wanted)))
    if isinstance(wanted, list):
        # One number stands for one of each dimension.
        listed = list(given) if isinstance(given, list | tuple) else [given] * len(wanted)
        return listed == wanted
    if argument.name == "padding" and wanted == "valid":
        return given == 0  # The same padding.
    return given == wanted and isinstance(given, bool) == isinstance(wanted, bool)


def _dtype_of_code(code: int) -> torch.dtype:
    """The dtype that a schema's default stands for."""
    return {4: torch.int64, 6: torch.float32}[code]
