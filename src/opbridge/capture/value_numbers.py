"""Value numbering of captured graphs: nodes that give the same value get the same number, in all graphs of a numbering.

It is how captures of a model are compared (`same_graph`) and what is found to be common to several of them
(`size_branches.joining`).
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.writes import written_by

__all__ = ["ValueNumbering", "is_number"]

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_number(node: Node) -> bool:
    """Whether a node is a symbolic number that follows from the sizes of the inputs."""
    value = node.meta.get("val")
    return isinstance(value, _NUMBERS) and not torch_sizes.unknown_symbols([value])


class ValueNumbering:
    """Gives each node a number that is the same for nodes which give the same, of the same shape.

    - A number that follows from the sizes of the inputs is told by its expression, however it is computed.
    - A tensor with values is told by these.
    - An operator with random results gives what another one gives that is the same call, after as many random ones in
      its graph.
    - What is computed after a write is not what is computed before it.

    Args:
        sizes: Values of symbols, which are replaced by them.
    """

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self._sizes = sizes or {}
        self._numbers: dict[Hashable, int] = {}
        self._forms: dict[Any, Hashable] = {}  # of expressions, as it takes long to write one
        self._tensors: dict[int, tuple[torch.Tensor, Hashable]] = {}

    def tensor(self, tensor: torch.Tensor) -> Hashable:
        """What tells a tensor with values from others: its values, bit by bit."""
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = tensor, _digest(tensor)
        return self._tensors[id(tensor)][1]

    def of(self, module: GraphModule, given: Mapping[Node, Hashable]) -> dict[Node, int]:
        """The numbers of the nodes of a graph, without its output.

        Args:
            module: The graph.
            given: What tells its placeholders from others.
        """
        found: dict[Node, int] = {}
        draws = writes = 0
        for node in module.graph.nodes:
            if node.op == "output":
                continue
            source = self._unchanged(node)
            if source is not None:
                found[node] = found[source]
                continue
            key = given[node] if node.op == "placeholder" else self._key(node, module, found)
            if node.op == "call_function" and not is_number(node):
                is_drawn = _draws(node)
                key = key, writes, draws if is_drawn else None
                draws += is_drawn
                writes += bool(written_by(node))
            found[node] = self._numbers.setdefault(key, len(self._numbers))
        return found

    def writes_of(self, module: GraphModule, numbers: Mapping[Node, int]) -> list[int]:
        """The numbers of the nodes that write, in order.

        Args:
            module: The graph.
            numbers: What `of` gave for it.
        """
        nodes = (node for node in module.graph.nodes if node.op == "call_function" and written_by(node))
        return [numbers[node] for node in nodes]

    def _unchanged(self, node: Node) -> Node | None:
        """The node whose value another one gives unchanged; None where it gives one of its own."""
        return None

    def _key(self, node: Node, module: GraphModule, found: Mapping[Node, int]) -> Hashable:
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(module)
            if isinstance(value, GraphModule):
                return self._of_body(value)
            return self.tensor(value) if isinstance(value, torch.Tensor) else ("attribute", id(value))
        if is_number(node):
            return self._form(node.meta["val"], found)
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
            return self._form(value.meta["val"], found) if is_number(value) else ("node", found[value])
        if isinstance(value, torch.Tensor):
            return "shape", tuple(self._form(size, found) for size in value.shape), value.dtype, str(value.device)
        if isinstance(value, _NUMBERS):
            return self._form_of_number(value)
        if isinstance(value, (list, tuple)):
            return "list", tuple(self._form(item, found) for item in value)
        if isinstance(value, Mapping):
            return "dict", tuple((key, self._form(item, found)) for key, item in value.items())
        if isinstance(value, slice):
            return "slice", tuple(self._form(part, found) for part in (value.start, value.stop, value.step))
        if isinstance(value, (int, float, complex)):
            return type(value), repr(value)
        return (type(value), value) if isinstance(value, Hashable) else ("object", id(value))

    def _form_of_number(self, number: Any) -> Hashable:
        expression = number.node.expr
        if expression not in self._forms:
            text = torch_sizes.expression(number, self._sizes)
            self._forms[expression] = (int, text) if text.lstrip("-").isdecimal() else ("number", text)
        return self._forms[expression]


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


def _digest(tensor: torch.Tensor) -> Hashable:
    """The values of a tensor in a form that can be compared; its identity where they cannot be read."""
    if type(tensor) is not torch.Tensor and not isinstance(tensor, torch.nn.Parameter):
        return "tensor", id(tensor)
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        return "tensor", id(tensor)
    data = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    values = hashlib.sha256(data.numpy().tobytes()).digest()
    return "tensor", tensor.dtype, tuple(tensor.shape), str(tensor.device), values
