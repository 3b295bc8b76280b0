"""A call of an operator -> the inputs and attributes of its `aten` node (see `format`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torch_operators
from opbridge.errors import TranslationError, UsageError
from opbridge.nodes.aten_node.format import Input, Kind, attribute_name, kind_text, leaves

__all__ = ["Encoded", "bind_arguments", "encode"]


@dataclass(frozen=True)
class Encoded:
    """The contents of a node.

    Attributes:
        inputs: The `Input.value` of each input, in the order of the node's inputs.
        attributes: The node's attributes, by name.
    """

    inputs: list[Any]
    attributes: dict[str, ir.Attr]


def encode(
    target: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
) -> Encoded:
    """Encodes the call of an operator.

    Args:
        target: The operator.
        args: Its positional arguments: `Input`s, numbers, strings, dtypes and so on, and lists of these.
        kwargs: Its keyword arguments.
        result: The operator's result for them, in torch's structure. Of a tensor only the dtype is used.

    Returns:
        The inputs and the attributes of the node.

    Raises:
        TranslationError: The node format has no kind for an argument or a result, or an argument is missing.
    """
    declared, returned = torch_operators.declared(target)
    encoder = _Encoder(target)
    for argument, value in zip(declared, bind_arguments(target, args, kwargs), strict=True):
        encoder.add_argument(argument, value)
    values = [result] if len(returned) == 1 else list(result or ())
    kinds = [encoder.result_kind(each, value) for each, value in zip(returned, values, strict=True)]
    types = [int(_onnx_type(value, encoder)) for value in leaves(result)]
    name, _, overload = (torch_operators.operator_name(target) or "").partition(".")
    results = " ".join(f"{each.type}={kind_text(kind)}" for each, kind in zip(returned, kinds, strict=True))
    attributes = [
        ir.AttrString("operator", name),
        ir.AttrString("overload_name", overload),
        ir.AttrString("schema", str(target._schema)),
        ir.AttrString("torch_version", torch.__version__),
        ir.AttrString("arguments", " ".join(encoder.arguments)),
        ir.AttrString("results", results),
        ir.AttrInt64s("output_types", types),
        *encoder.attributes,
    ]
    return Encoded(encoder.inputs, {attribute.name: attribute for attribute in attributes})


def bind_arguments(target: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The value of every argument of an operator's schema, in order.

    Defaults are filled in. A number is repeated where the schema declares a list with a length (`int[2] stride`).

    Args:
        target: The operator.
        args: The positional arguments.
        kwargs: The keyword arguments.

    Raises:
        TranslationError: An argument is missing, or the schema has no such argument.
    """
    declared, _ = torch_operators.declared(target)
    unknown = [*map(repr, args[len(declared) :]), *kwargs.keys() - {each.name for each in declared}]
    if unknown:
        raise TranslationError(
            f"{torch_operators.operator_name(target)} has no argument {unknown[0]}: {target._schema}."
        )
    values = []
    for position, each in enumerate(declared):
        if position < len(args):
            value = args[position]
        elif each.name in kwargs:
            value = kwargs[each.name]
        elif each.has_default:
            value = each.default
        else:
            raise TranslationError(
                f"{torch_operators.operator_name(target)} is called without its argument '{each.name}'."
            )
        if each.length is not None and value is not None and not isinstance(value, (list, tuple)):
            value = [value] * each.length
        values.append(value)
    return values


class _Encoder:
    """Encodes arguments and results one by one.

    Attributes:
        inputs: The `Input.value` of each input so far.
        attributes: The attributes that hold arguments.
        arguments: The items of the attribute `arguments`.
    """

    def __init__(self, target: torch._ops.OpOverload) -> None:
        self._operator = torch_operators.operator_name(target)
        self.inputs: list[Any] = []
        self.attributes: list[ir.Attr] = []
        self.arguments: list[str] = []

    def add_argument(self, declared: torch_operators.Declared, value: Any) -> None:
        optional = declared.type.endswith("?")
        kind = "none" if value is None and optional else self._add_value(declared, declared.type.rstrip("?"), value)
        self.arguments.append(f"{declared.name}:{declared.type}={kind}")

    def result_kind(self, declared: torch_operators.Declared, value: Any) -> Kind:
        if isinstance(value, (list, tuple)):
            return tuple(self.result_kind(declared, item) for item in value)
        if value is None:
            return "none"
        if isinstance(value, torch.Tensor):
            return "complex_tensor" if value.is_complex() else "tensor"
        for kind, types in (
            ("bool", (bool, torch.SymBool)),
            ("int", (int, torch.SymInt)),
            ("float", (float, torch.SymFloat)),
        ):
            if isinstance(value, types):
                return kind
        raise self.error(f"its result of type {declared.type} cannot be an output")

    def error(self, reason: str) -> TranslationError:
        return TranslationError(f"{self._operator} cannot be an aten node: {reason}.")

    def _add_value(self, declared: torch_operators.Declared, type_: str, value: Any) -> str:
        """Adds the input or the attributes of a value, and returns the text of its kind."""
        name = declared.name
        if not type_.endswith("[]"):
            return self._add_item(name, name, type_, value)
        item_type = type_.removesuffix("[]")
        if not isinstance(value, (list, tuple)):
            raise self.error(f"its argument '{name}' is {_described(value)} instead of a list")
        number_kinds = {_number_kind(item, item_type.rstrip("?")) for item in value}
        kind = number_kinds.pop() if len(number_kinds) == 1 else None
        if kind in ("int", "float", "bool"):
            return self._add_numbers(name, kind, value)
        kinds = []
        for index, item in enumerate(value):
            is_none = item is None and item_type.endswith("?")
            kinds.append("none" if is_none else self._add_item(name, f"{name}.{index}", item_type.rstrip("?"), item))
        return kind_text(tuple(kinds))

    def _add_numbers(self, name: str, kind: str, values: Sequence[Any]) -> str:
        if kind == "float":
            self._add_attribute(_doubles(attribute_name(name), values))
        else:
            self._add_attribute(ir.AttrInt64s(attribute_name(name), [self._int64(name, value) for value in values]))
        return f"{kind}s"

    def _add_item(self, name: str, stored: str, type_: str, value: Any) -> str:
        """Adds one value; `name` is the argument and `stored` the name that its attribute is derived from."""
        attribute = attribute_name(stored)
        if isinstance(value, Input):
            if (type_ == "Tensor") != (value.kind in ("tensor", "complex_tensor")):
                raise self.error(f"its argument '{name}' has type {type_}, but its value is of kind {value.kind}")
            self.inputs.append(value.value)
            return value.kind
        kind = _number_kind(value, type_)
        if kind == "float":
            self._add_attribute(_doubles(attribute, float(value)))
        elif kind == "complex":
            self._add_attribute(_doubles(attribute, [value.real, value.imag]))
        elif kind is not None:
            self._add_attribute(ir.AttrInt64(attribute, self._int64(name, value)))
        elif type_ == "str" and isinstance(value, str):
            kind = "str"
            self._add_attribute(ir.AttrString(attribute, value))
        else:
            kind, text = _setting(type_, value)
            if not kind:
                raise self.error(f"its argument '{name}' of type {type_} is {_described(value)}")
            self._add_attribute(ir.AttrString(attribute, text))
        return kind

    def _add_attribute(self, attribute: ir.Attr) -> None:
        self.attributes.append(attribute)

    def _int64(self, name: str, value: int) -> int:
        if not -(2**63) <= value < 2**63:
            raise self.error(f"its argument '{name}' is {value}, which is not a 64-bit integer")
        return int(value)


def _number_kind(value: Any, type_: str) -> str | None:
    """The kind of a number for an argument of a type; None where the value is no number or does not fit the type."""
    if isinstance(value, bool):
        return {"bool": "bool", "SymBool": "bool", "Scalar": "bool", "int": "int", "SymInt": "int"}.get(type_)
    if isinstance(value, int):
        return {"int": "int", "SymInt": "int", "Scalar": "int", "float": "float", "SymFloat": "float"}.get(type_)
    if isinstance(value, float):
        return {"float": "float", "SymFloat": "float", "Scalar": "float"}.get(type_)
    return "complex" if isinstance(value, complex) and type_ == "Scalar" else None


def _setting(type_: str, value: Any) -> tuple[str, str]:
    """The kind and the text of a dtype, layout, device or memory format; two empty strings for anything else."""
    for wanted, kind, class_ in (
        ("ScalarType", "dtype", torch.dtype),
        ("Layout", "layout", torch.layout),
        ("MemoryFormat", "memory_format", torch.memory_format),
        ("Device", "device", (torch.device, str)),
    ):
        if type_ == wanted and isinstance(value, class_):
            return kind, str(value).removeprefix("torch.")
    return "", ""


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _doubles(name: str, values: Any) -> ir.Attr:
    return ir.AttrTensor(name, ir.Tensor(np.asarray(values, dtype=np.float64)))


def _onnx_type(value: Any, encoder: _Encoder) -> ir.DataType:
    if not isinstance(value, torch.Tensor):
        is_bool, is_int = isinstance(value, (bool, torch.SymBool)), isinstance(value, (int, torch.SymInt))
        return ir.DataType.BOOL if is_bool else ir.DataType.INT64 if is_int else ir.DataType.DOUBLE
    if value.layout != torch.strided or value.is_nested:
        kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
        raise encoder.error(f"one of its results is a {kind} tensor, which is not supported in ONNX")
    try:
        return onnx_dtype(value.dtype.to_real() if value.is_complex() else value.dtype)
    except UsageError:
        raise encoder.error(f"one of its results has type {value.dtype}, which is not supported in ONNX") from None
