"""What several captures of a model have in common: equal nodes get equal keys."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge.base.torch_private import torch_sizes

__all__ = ["Keys", "is_number"]

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_LARGEST_COMPARED = 4096


def is_number(node: Node) -> bool:
    """Whether a node is a symbolic number that follows from the sizes of the inputs."""
    value = node.meta.get("val")
    return isinstance(value, _NUMBERS) and not torch_sizes.unknown_symbols([value])


class Keys:
    """Gives each node a key that is the same for nodes which give the same, of the same shape.

    An operator with random results has a key of its own. A number that follows from the sizes of the inputs is told by
    its expression, however it is computed.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._texts: dict[Any, str] = {}  # of expressions, as it takes long to write one
        self._tensors: list[torch.Tensor] = []

    def tensor(self, tensor: torch.Tensor) -> Hashable:
        """The key of a tensor with values: small ones are compared."""
        for number, known in enumerate(self._tensors):
            if known is tensor or _same_values(known, tensor):
                return "tensor", number
        self._tensors.append(tensor)
        return "tensor", len(self._tensors) - 1

    def of(self, module: GraphModule, given: Mapping[Node, Hashable]) -> dict[Node, int]:
        """The keys of the nodes of a graph, without its output.

        Args:
            module: The graph.
            given: What tells its placeholders from others.
        """
        found: dict[Node, int] = {}
        for node in module.graph.nodes:
            if node.op != "output":
                found[node] = self._number(node, module, given, found)
        return found

    def _number(
        self, node: Node, module: GraphModule, given: Mapping[Node, Hashable], found: Mapping[Node, int]
    ) -> int:
        key = given[node] if node.op == "placeholder" else self._key(node, module, found)
        return self._numbers.setdefault(key, len(self._numbers))

    def _key(self, node: Node, module: GraphModule, found: Mapping[Node, int]) -> Hashable:
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(module)
            if isinstance(value, GraphModule):
                return self._of_body(value)
            return self.tensor(value) if isinstance(value, torch.Tensor) else ("attribute", id(value))
        if is_number(node):
            return self._form(node.meta["val"], found)
        if _draws(node):
            return "own", id(node)
        form = self._form((node.args, node.kwargs), found)
        return "call", node.target, form, self._form(node.meta.get("val"), found)

    def _of_body(self, body: GraphModule) -> Hashable:
        placeholders = [node for node in body.graph.nodes if node.op == "placeholder"]
        given = {
            node: ("argument", number, self._form(node.meta.get("val"), {})) for number, node in enumerate(placeholders)
        }
        found = self.of(body, given)
        return "body", len(placeholders), self._form(body.graph.output_node().args[0], found)

    def _form(self, value: Any, found: Mapping[Node, int]) -> Hashable:
        if isinstance(value, Node):
            return "node", found[value]
        if isinstance(value, torch.Tensor):
            return "shape", tuple(self._form(size, found) for size in value.shape), value.dtype, str(value.device)
        if isinstance(value, _NUMBERS):
            return "number", self._text(value.node.expr)
        if isinstance(value, (list, tuple)):
            return "list", tuple(self._form(item, found) for item in value)
        if isinstance(value, Mapping):
            return "dict", tuple((key, self._form(item, found)) for key, item in value.items())
        if isinstance(value, slice):
            return "slice", tuple(self._form(part, found) for part in (value.start, value.stop, value.step))
        if isinstance(value, (int, float, complex)):
            return type(value), repr(value)
        return (type(value), value) if isinstance(value, Hashable) else ("object", id(value))

    def _text(self, expression: Any) -> str:
        text = self._texts.get(expression)
        if text is None:
            text = self._texts[expression] = str(expression)
        return text


def _draws(node: Node) -> bool:
    """Whether an operator gives random results; dropout does so in training, and attention with such a probability."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    schema: Any = getattr(node.target, "_schema", None)
    names = [] if schema is None else [argument.name for argument in schema.arguments]
    given = {argument.name: argument.default_value for argument in schema.arguments} if names else {}
    given |= dict(zip(names, node.args, strict=False)) | node.kwargs
    is_settled = any(given.get(name) is False for name in ("train", "training")) or given.get("dropout_p") == 0.0
    return not is_settled


def _same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape or one.device != other.device:
        return False
    if one.numel() > _LARGEST_COMPARED or not one.layout == other.layout == torch.strided:
        return False
    return bool(torch.equal(one, other)) and (not one.is_floating_point() or str(one.tolist()) == str(other.tolist()))
