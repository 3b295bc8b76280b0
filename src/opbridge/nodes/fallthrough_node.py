"""The format of a `fallthrough` node: a PyTorch operator as one ONNX node, for a kernel that the user provides.

    domain      the operator's namespace                        torch.ops.mylib.foo.bar -> mylib
    op_type     its name, with its overload where it has one    foo.bar
    inputs      the tensor arguments, in the order of the schema. An optional tensor that is None is an empty input. The
                tensors of a list are consecutive inputs, and an attribute with the list's name holds their number.
    attributes  the other arguments, by their names in the schema, defaults included; None has no attribute
    outputs     the operator's results, in order

    bool, int               INT             a list of them  INTS
    float                   FLOAT           a list of them  FLOATS
    complex                 FLOATS, two     str             STRING
    dtype                   INT, the value of onnx.TensorProto.DataType
    layout, device, memory_format           STRING, torch's name

A number that is known only at run time is an input of rank 0 (INT64, floating or BOOL), at its position among the
tensors. A list that has such a number is an INT64 input of rank 1. A complex tensor is a real one with a trailing
dimension of 2.

The `aten` node (see `opbridge.nodes.aten_node`) holds more information and is made for libtorch. This node is made for
kernels that are written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torch_operators
from opbridge.errors import TranslationError
from opbridge.nodes.aten_node import Input, bind_arguments

__all__ = ["Encoded", "encode"]


@dataclass(frozen=True)
class Encoded:
    """The contents of a node.

    Attributes:
        domain: Its domain.
        op_type: Its operator type in that domain.
        inputs: The `Input.value` of each input: None for an empty input, a list for a list of numbers.
        attributes: Its attributes, by name.
    """

    domain: str
    op_type: str
    inputs: list[Any] = field(default_factory=list)
    attributes: dict[str, ir.Attr] = field(default_factory=dict)


def encode(target: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Encoded:
    """Encodes the call of an operator.

    Args:
        target: The operator.
        args: Its positional arguments, as for `opbridge.nodes.aten_node.encode`.
        kwargs: Its keyword arguments.

    Raises:
        TranslationError: The node format has no attribute for an argument, or an argument is missing.
    """
    domain, _, op_type = (torch_operators.operator_name(target) or "").partition("::")
    node = Encoded(domain, op_type)
    declared, _ = torch_operators.declared(target)
    for argument, value in zip(declared, bind_arguments(target, args, kwargs), strict=True):
        type_ = argument.type.rstrip("?")
        if type_.endswith("[]") and isinstance(value, (list, tuple)):
            _add_list(node, argument.name, type_, value)
        elif isinstance(value, Input) or (value is None and type_ == "Tensor"):
            node.inputs.append(None if value is None else value.value)
        elif value is not None:
            _add_attribute(node, _attribute(node, argument.name, type_, value))
    return node


def _add_list(node: Encoded, name: str, type_: str, items: Sequence[Any]) -> None:
    if type_ in ("Tensor[]", "Tensor?[]"):
        node.inputs.extend(None if item is None else item.value for item in items)
        _add_attribute(node, ir.AttrInt64(name, len(items)))
    elif any(isinstance(item, Input) for item in items):
        node.inputs.append([item.value if isinstance(item, Input) else item for item in items])
    elif all(isinstance(item, int) for item in items):
        _add_attribute(node, ir.AttrInt64s(name, [int(item) for item in items]))
    elif all(isinstance(item, (int, float)) for item in items):
        _add_attribute(node, ir.AttrFloat32s(name, [float(item) for item in items]))
    else:
        raise _unsupported_argument(node, name, type_, items[0])


def _attribute(node: Encoded, name: str, type_: str, value: Any) -> ir.Attr:
    if type_ == "ScalarType":
        return ir.AttrInt64(name, int(onnx_dtype(value)))
    if isinstance(value, int):
        return ir.AttrFloat32(name, float(value)) if type_ == "float" else ir.AttrInt64(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, complex):
        return ir.AttrFloat32s(name, [value.real, value.imag])
    if isinstance(value, (str, torch.layout, torch.device, torch.memory_format)):
        return ir.AttrString(name, str(value).removeprefix("torch."))
    raise _unsupported_argument(node, name, type_, value)


def _add_attribute(node: Encoded, attribute: ir.Attr) -> None:
    node.attributes[attribute.name] = attribute


def _unsupported_argument(node: Encoded, name: str, type_: str, value: Any) -> TranslationError:
    return TranslationError(
        f"{node.domain}::{node.op_type} cannot be a single node: its argument '{name}' of type {type_} is a "
        f"{type(value).__name__}."
    )
