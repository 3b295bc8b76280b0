"""An `aten` node -> the call that it describes (see `format`)."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from opbridge.errors import UsageError
from opbridge.nodes.aten_node.call import AtenCall, malformed
from opbridge.nodes.aten_node.format import DOMAIN, INPUT_KINDS, OP_TYPE, Input, Kind, attribute_name, parse_kind
from opbridge.nodes.aten_node.older_form import decode_older

__all__ = ["decode"]


def decode(node: ir.Node) -> AtenCall:
    """Decodes a node.

    Args:
        node: An `ATen` node, in the current form or in that of TorchScript-based exporters.

    Raises:
        ModelFileError: The node is malformed, or is of the older form and the installed torch lacks its operator.
        UsageError: The node is no `ATen` node.
    """
    if (node.domain, node.op_type) != (DOMAIN, OP_TYPE):
        raise UsageError(f"{node.domain}::{node.op_type} is not an aten node; expected {DOMAIN}::{OP_TYPE}.")
    try:
        return _decoded(node) if "arguments" in node.attributes else decode_older(node)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise malformed(node, f"{type(error).__name__}: {error}") from error


def _decoded(node: ir.Node) -> AtenCall:
    reader = _Reader(node)
    arguments = {}
    for item in reader.text("arguments").split():
        declared, _, kind = item.partition("=")
        name = declared.partition(":")[0]
        arguments[name] = reader.value(attribute_name(name), parse_kind(kind))
    if reader.inputs_read != len(node.inputs):
        raise ValueError(f"{reader.inputs_read} of its {len(node.inputs)} inputs are arguments")
    results = tuple(parse_kind(item.partition("=")[2]) for item in reader.text("results").split())
    overload = reader.text("overload_name")
    operator = reader.text("operator") + (f".{overload}" if overload else "")
    return AtenCall(operator, arguments, results, reader.text("schema"), reader.text("torch_version"))


class _Reader:
    """Reads the arguments of a node in order.

    Attributes:
        inputs_read: How many inputs of the node were arguments so far.
    """

    def __init__(self, node: ir.Node) -> None:
        self._node = node
        self.inputs_read = 0

    def text(self, name: str) -> str:
        return self._node.attributes[name].as_string()

    def value(self, name: str, kind: Kind) -> Any:
        if isinstance(kind, tuple):
            return [self.value(f"{name}.{index}", each) for index, each in enumerate(kind)]
        if kind in INPUT_KINDS:
            self.inputs_read += 1
            if self.inputs_read > len(self._node.inputs):
                raise ValueError(f"there is no input for the argument '{name}'")
            return Input(kind, self.inputs_read - 1)
        if kind == "none":
            return None
        attribute = self._node.attributes[name]
        if kind in ("int", "bool"):
            return bool(attribute.as_int()) if kind == "bool" else attribute.as_int()
        if kind in ("ints", "bools"):
            return [bool(item) if kind == "bools" else item for item in attribute.as_ints()]
        if kind in ("float", "floats", "complex"):
            numbers = attribute.as_tensor().numpy().tolist()
            return complex(*numbers) if kind == "complex" else numbers
        text = attribute.as_string()
        if kind in ("dtype", "layout", "memory_format"):
            return getattr(torch, text)
        if kind not in ("device", "str"):
            raise ValueError(f"the argument '{name}' is of the unknown kind {kind}")
        return torch.device(text) if kind == "device" else text
