"""The nodes of a graph whose values depend on no input, and what Python asks about these values."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_overrides
from opbridge.capture.tracer.sparse_operators import dense_form, is_sparse

__all__ = ["Constants"]

_LARGEST = 1 << 24
"""Elements that a tensor may have that is computed to answer a question of Python's."""


class Constants:
    """Computes values that depend on parameters, buffers and constants alone.

    `float(self.scale)` or `int(self.lengths.sum())` is then a number, as it is in eager PyTorch: an ONNX file has its
    weights fixed. It is not where the model writes to the memory of one of these tensors, or draws random numbers.
    """

    def __init__(self) -> None:
        self._values: dict[Node, Any] = {}
        self._sparse: dict[Node, torch.Tensor] = {}
        self._functions: dict[Node, Any] = {}
        self._written: set[int] = set()

    def add_weight(self, node: Node, tensor: torch.Tensor) -> None:
        """Notes a node that stands for a tensor of the model."""
        if is_sparse(tensor):
            self._sparse[node] = tensor
        self._values[node] = dense_form(tensor)

    def sparse_weight(self, node: Node) -> torch.Tensor | None:
        """The sparse tensor that a node stands for; None for any other node."""
        return self._sparse.get(node)

    def add(self, function: Any, node: Node) -> None:
        """Notes a new node, of which the arguments are known."""
        if function is not operator.getitem:
            schema = getattr(function, "_schema", None)
            if schema is None:
                return
            if function is torch.ops.aten.detach_.default:  # as `torch.tensor` calls it; it changes no value
                function = torch.ops.aten.detach.default
            elif schema.is_mutable:
                for argument, described in zip(node.args, schema.arguments, strict=False):
                    if described.alias_info is not None and described.alias_info.is_write:
                        self._note_write(argument)
                return
            if torch.Tag.nondeterministic_seeded in function.tags:
                return
        if all(argument in self._functions or argument in self._values for argument in node.all_input_nodes):
            self._functions[node] = function

    def result(self, function: Any, arguments: Any, keywords: Any) -> tuple[bool, Any]:
        """Whether the result of an operator is known, and what it is."""
        nodes: list[Node] = []
        torch.fx.node.map_arg((arguments, keywords), nodes.append)
        if not all(map(self._is_known, nodes)):
            return False, None
        with torch_overrides.without_modes(), torch.no_grad():
            given, named = torch.fx.node.map_arg((arguments, keywords), self._value)
            return True, function(*given, **named)

    def is_written(self, tensor: torch.Tensor) -> bool:
        """Whether the model has written to the memory of a tensor."""
        return _memory(tensor) in self._written

    def _note_write(self, argument: Any) -> None:
        for each in argument if isinstance(argument, (list, tuple)) else (argument,):
            if isinstance(each, Node) and isinstance(value := each.meta.get("val"), torch.Tensor):
                self._written.add(_memory(value))

    def _is_known(self, node: Node) -> bool:
        pending, seen = [node], set()
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            if each not in self._values and each not in self._functions:
                return False
            value = each.meta.get("val")
            if isinstance(value, torch.Tensor) and (self.is_written(value) or value.numel() > _LARGEST):
                return False
            if each not in self._values:
                pending.extend(each.all_input_nodes)
        return True

    def _value(self, node: Node) -> Any:
        order, pending = [], [node]
        while pending:
            each = pending.pop()
            if each not in self._values:
                order.append(each)
                pending.extend(each.all_input_nodes)
        for each in reversed(order):
            if each not in self._values:
                args, kwargs = torch.fx.node.map_arg((each.args, each.kwargs), self._values.__getitem__)
                self._values[each] = self._functions[each](*args, **kwargs)
        return self._values[node]


def _memory(tensor: torch.Tensor) -> int:
    from opbridge.base.torch_private import torch_tracing

    return torch_tracing.storage_key(tensor)
