"""A copy of a float32 model in which each node rounds what it reads and gives to 16 bits, or not, as it is told.

One session answers for every choice of nodes: the choice is an input, a vector of booleans. What a node computes inside
is float32's, as on the devices that multiply numbers of 16 bits; what it reads and gives is rounded, weights too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import onnx_ir as ir

from opbridge.precision.copies import Copy
from opbridge.precision.formats import Format
from opbridge.precision.forms import CONTROL_FLOW, Form
from opbridge.precision.instruments import Instruments, Place
from opbridge.precision.rewriting import LARGE, constant_of
from opbridge.precision.types import Floats, bodies

__all__ = ["Simulation"]


class Simulation:
    """The copy.

    Args:
        model: The model, without functions.
        to: The format.
        floats: Its values of float32.
        form: The form of a node.
        nodes: The nodes that may round.
        stored: Nodes that do not, and whose large constants are rounded all the same.

    Attributes:
        model: The copy.
        choice: The name of the input that says which nodes round, in the order of `nodes`.
    """

    def __init__(
        self,
        model: ir.Model,
        to: Format,
        floats: Floats,
        form: Callable[[ir.Node], Form],
        nodes: Sequence[ir.Node],
        stored: Collection[ir.Node] = (),
    ) -> None:
        copy = Copy(model)
        self.model = copy.model
        self._tools, self._floats = Instruments(self.model, to), floats
        graph = self.model.graph
        self.choice = self._tools.name()
        flags = ir.Value(name=self.choice, type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([max(len(nodes), 1)]))
        graph.inputs.append(flags)
        self._selected: dict[tuple[ir.Value, ir.Value], ir.Value] = {}
        begin = Place.behind(flags, graph)
        chosen = [
            self._tools.emit(
                begin, "Gather", flags, self._tools.constant(np.array(at, np.int64)), dtype=ir.DataType.BOOL, axis=0
            )
            for at in range(len(nodes))
        ]
        for node, flag in zip(nodes, chosen, strict=True):
            self._node(node, copy.nodes[node], form(node), flag)
        for node in stored:
            for at, value in enumerate(node.inputs):
                tensor = constant_of(value)
                if value is not None and tensor is not None and tensor.size >= LARGE and form(node).inputs[at]:
                    copy.nodes[node].replace_input_with(at, self._tools.rounded(copy.values[value]))

    def _node(self, original: ir.Node, node: ir.Node, form: Form, flag: ir.Value) -> None:
        for at, value in enumerate(node.inputs):
            if form.inputs[at]:
                assert value is not None
                node.replace_input_with(at, self._chosen(value, flag))
        if node.op_type in CONTROL_FLOW:
            for own, body in zip(bodies(original), bodies(node), strict=True):
                self._ends(own, body, flag)
        for at, value in enumerate(node.outputs):
            if not form.outputs[at] or not value.name:
                continue
            uses = list(value.uses())
            result = self._chosen(value, flag)
            for user, place in uses:
                user.replace_input_with(place, result)
            _as_output(value, result)

    def _ends(self, own: ir.Graph, body: ir.Graph, flag: ir.Value) -> None:
        """Rounds what comes out of a body; what goes in was rounded before it."""
        for at, value in enumerate(own.outputs):
            if value in self._floats:
                end, given = Place.end(body), body.outputs[at]
                body.outputs[at] = self._tools.rounded_if(end, flag, given)

    def _chosen(self, value: ir.Value, flag: ir.Value) -> ir.Value:
        """The value, rounded where a flag says so."""
        key = value, flag
        if key not in self._selected:
            self._selected[key] = self._tools.rounded_if(Place.behind(value, self.model.graph), flag, value)
        return self._selected[key]


def _as_output(value: ir.Value, result: ir.Value) -> None:
    """Has a graph give another value in the place of one, under its name."""
    if not value.is_graph_output():
        return
    maker = value.producer()
    assert maker is not None
    graph = maker.graph
    assert isinstance(graph, ir.Graph)
    for at, each in enumerate(list(graph.outputs)):
        if each is value:
            graph.outputs[at] = result
    value.name, result.name = result.name, value.name
    result.shape = value.shape
