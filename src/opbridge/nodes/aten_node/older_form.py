"""The `aten` nodes of TorchScript-based exporters, decoded with the schemas of the installed torch.

They name the operator without its namespace and often without its overload, and have all arguments as inputs, constants
included. The schema and the kinds of the arguments are not stored.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.torch_private import torch_operators
from opbridge.nodes.aten_node.call import AtenCall, malformed
from opbridge.nodes.aten_node.format import RESERVED, Input

__all__ = ["decode_older"]


def decode_older(node: ir.Node) -> AtenCall:
    """Decodes a node of the older form.

    An argument is an attribute of its own name, or the next input, or the default of the schema.

    Raises:
        ModelFileError: The installed torch does not have the operator.
        KeyError, ValueError: The node does not fit the operator's schema.
    """
    operator = node.attributes["operator"].as_string()
    operator = operator if "::" in operator else f"aten::{operator}"
    overload = node.attributes["overload_name"].as_string() if "overload_name" in node.attributes else ""
    # The overload is often missing. The overload `Tensor` also takes numbers, as tensors of rank 0; the default
    # overload may be an operator of TorchScript for numbers only.
    names = [f"{operator}.{overload}"] if overload else [operator, f"{operator}.Tensor"]
    found = [each for each in map(torch_operators.operator_object, names) if each is not None]
    target = next((each for each in found if "Tensor" in str(each._schema).partition(" -> ")[0]), None)
    if target is None:
        raise malformed(node, f"torch {torch.__version__} has no operator {operator} with the overload '{overload}'")
    declared, _ = torch_operators.declared(target)
    arguments: dict[str, Any] = {}
    position = 0
    for each in declared:
        if each.name in node.attributes and each.name not in RESERVED:
            arguments[each.name] = _from_attribute(each, node.attributes[each.name])
        elif position < len(node.inputs):
            arguments[each.name] = _from_input(each, node.inputs[position], position)
            position += 1
        elif each.has_default:
            arguments[each.name] = each.default
        else:
            raise ValueError(f"it has no value for the argument '{each.name}' of {target._schema}")
    if position < len(node.inputs):
        raise ValueError(f"it has more inputs than {target._schema} has arguments")
    arguments = {each.name: _python_value(each.type, arguments[each.name]) for each in declared}
    return AtenCall(torch_operators.operator_name(target) or operator, arguments)


def _from_input(declared: torch_operators.Declared, value: ir.Value | None, position: int) -> Any:
    type_ = declared.type.rstrip("?")
    if value is None:
        return None
    if type_ == "Tensor":
        return Input("tensor", position)
    if type_ == "Tensor[]" or type_ == "Tensor?[]":
        raise ValueError(f"the tensors of the argument '{declared.name}' cannot be distinguished from its other inputs")
    constant = ir.convenience.get_const_tensor(value)
    if constant is not None:
        return constant.numpy().tolist()
    kinds = {"int": "input_int", "SymInt": "input_int", "float": "input_float", "bool": "input_bool"}
    if type_ not in kinds:
        raise ValueError(f"the argument '{declared.name}' of type {declared.type} is computed at run time")
    return Input(kinds[type_], position)


def _from_attribute(declared: torch_operators.Declared, attribute: ir.Attr) -> Any:
    value = attribute.value
    if isinstance(value, ir.TensorProtocol):
        value = value.numpy().tolist()
    return list(value) if isinstance(value, (list, tuple)) else value


def _python_value(type_: str, value: Any) -> Any:
    """A value of the older form as a Python value: the older form stores bools, dtypes and layouts as integers."""
    if type(value) is int and type_.rstrip("?") == "bool":
        return bool(value)
    return torch_operators.setting(type_, value)
