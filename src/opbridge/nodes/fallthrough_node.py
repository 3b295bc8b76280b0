"""The format of a `fallthrough` node: a PyTorch operator as an ONNX node of its own, for a kernel that the user brings.

    domain      the operator's namespace                        torch.ops.mylib.foo.bar -> mylib
    op_type     its name, with its overload where it has one    foo.bar
    inputs      what is a tensor, in the schema's order; a tensor that is left out is an empty input; the tensors of a
                list stand one after the other, and an attribute with the list's name says how many there are
    attributes  the rest, by the schema's names, defaults included; None is left out
    outputs     what the operator returns, in its order

    bool, int               INT             a list of them  INTS
    float                   FLOAT           a list of them  FLOATS
    complex                 FLOATS, two     str             STRING
    dtype                   INT, ONNX's number of the element type
    layout, device, memory_format           STRING, torch's name

A number that is known only when the model runs is an input without dimensions (INT64, floating or BOOL), at its place
among the tensors; so is a list with such a number in it, INT64 of one dimension. Complex tensors are real ones with a
trailing dimension of 2.

An `aten` node (see `aten_node`) holds more, and is meant for libtorch; this one is meant for people.
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
from opbridge.nodes.aten_node import Input, bound

__all__ = ["Encoded", "encode"]


@dataclass(frozen=True)
class Encoded:
    """What a node consists of.

    Attributes:
        domain: Its domain.
        op_type: Its name in that domain.
        inputs: What was given as `Input.value`, None where a tensor is left out, and a list for a list of numbers.
        attributes: By name.
    """

    domain: str
    op_type: str
    inputs: list[Any] = field(default_factory=list)
    attributes: dict[str, ir.Attr] = field(default_factory=dict)


def encode(target: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Encoded:
    """The node that an operator becomes; the arguments are those of `aten_node.encode`.

    Raises:
        TranslationError: an argument that a node cannot hold.
    """
    domain, _, op_type = (torch_operators.operator_name(target) or "").partition("::")
    node = Encoded(domain, op_type)
    declared, _ = torch_operators.declared(target)
    for argument, value in zip(declared, bound(target, args, kwargs), strict=True):
        type_ = argument.type.rstrip("?")
        if type_.endswith("[]") and isinstance(value, (list, tuple)):
            _add_list(node, argument.name, type_, value)
        elif isinstance(value, Input) or (value is None and type_ == "Tensor"):
            node.inputs.append(None if value is None else value.value)
        elif value is not None:
            _store(node, _attribute(node, argument.name, type_, value))
    return node


def _add_list(node: Encoded, name: str, type_: str, items: Sequence[Any]) -> None:
    if type_ in ("Tensor[]", "Tensor?[]"):
        node.inputs.extend(None if item is None else item.value for item in items)
        _store(node, ir.AttrInt64(name, len(items)))
    elif any(isinstance(item, Input) for item in items):
        node.inputs.append([item.value if isinstance(item, Input) else item for item in items])
    elif all(isinstance(item, int) for item in items):
        _store(node, ir.AttrInt64s(name, [int(item) for item in items]))
    elif all(isinstance(item, (int, float)) for item in items):
        _store(node, ir.AttrFloat32s(name, [float(item) for item in items]))
    else:
        raise _misfit(node, name, type_, items[0])


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
    raise _misfit(node, name, type_, value)


def _store(node: Encoded, attribute: ir.Attr) -> None:
    node.attributes[attribute.name] = attribute


def _misfit(node: Encoded, name: str, type_: str, value: Any) -> TranslationError:
    return TranslationError(
        f"{node.domain}::{node.op_type} does not fit into one node: its argument '{name}' of type {type_} is a "
        f"{type(value).__name__}."
    )
