"""Nodes that are added to a copy of a float32 model, to look into it or to round in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.precision.formats import Format
from opbridge.precision.types import graphs

__all__ = ["MOVING", "Instruments", "Place", "is_own"]

# They move or choose elements, and compute nothing.
MOVING = frozenset(
    {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split", "Gather", "Concat"}
    | {"GatherElements", "GatherND", "Expand", "Tile", "Pad", "DepthToSpace", "SpaceToDepth", "ReverseSequence"}
    | {"Compress", "Trilu", "Dropout", "CastLike"}
)

_OWN = "opbridge.precision"


def is_own(node: ir.Node) -> bool:
    """Whether a node was added."""
    return _OWN in node.meta


class Instruments:
    """Adds nodes to a model.

    Args:
        model: The model, which is changed.
        to: The format.
    """

    def __init__(self, model: ir.Model, to: Format) -> None:
        self.model, self._to = model, to
        self._names = {each.name for graph in graphs(model.graph) for node in graph for each in node.outputs}
        self._count = 0
        self._constants: dict[object, ir.Value] = {}
        self._rounded: dict[ir.Value, ir.Value] = {}

    def name(self) -> str:
        """A name that nothing has."""
        while (made := f"opbridge_{self._count}") in self._names:
            self._count += 1
        self._count += 1
        return made

    def emit(
        self, at: Place, op_type: str, *inputs: ir.Value | None, dtype: ir.DataType, **attributes: Any
    ) -> ir.Value:
        """The output of a new node.

        Args:
            at: Where it goes.
            op_type: Its operator.
            *inputs: Its inputs.
            dtype: The type of the output.
            **attributes: Its attributes.
        """
        name = self.name()
        made = [ir.convenience.convert_attribute(key, value) for key, value in attributes.items()]
        node = ir.Node("", op_type, list(inputs), made, num_outputs=1, name=name)
        node.meta[_OWN] = True
        node.outputs[0].name, node.outputs[0].type = name, ir.TensorType(dtype)
        at.add(node)
        return node.outputs[0]

    def constant(self, array: np.ndarray) -> ir.Value:
        """A constant of the outermost graph, which bodies see as well."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            value = ir.Value(name=self.name(), const_value=ir.tensor(array), type=ir.TensorType(ir.tensor(array).dtype))
            assert value.name is not None
            value.shape = ir.Shape(array.shape)
            self.model.graph.initializers[value.name] = value
            self._constants[key] = value
        return self._constants[key]

    def round_at(self, at: Place, value: ir.Value) -> ir.Value:
        """A value rounded to the format and in float32 again."""
        narrow = self.emit(at, "Cast", value, dtype=self._to.dtype, to=int(self._to.dtype))
        # Without a node between them, a runtime may take the two away.
        same = self.emit(at, "Identity", narrow, dtype=self._to.dtype)
        return self.emit(at, "Cast", same, dtype=ir.DataType.FLOAT, to=int(ir.DataType.FLOAT))

    def rounded(self, value: ir.Value) -> ir.Value:
        """The same, once for each value, right behind what gives it."""
        if value not in self._rounded:
            self._rounded[value] = self.round_at(Place.behind(value, self.model.graph), value)
        return self._rounded[value]

    def rounded_if(self, at: Place, flag: ir.Value, value: ir.Value) -> ir.Value:
        """A value, rounded to the format where a flag is set.

        It is an If, of which one branch runs: a Where of one boolean takes ONNX Runtime ten times as long as the Casts.
        """
        name = self.name()
        rounding, passing = (ir.Graph((), (), nodes=(), name=f"{name}_{kind}") for kind in ("rounding", "passing"))
        rounding.outputs.append(self.round_at(Place.end(rounding), value))
        passing.outputs.append(self.emit(Place.end(passing), "Identity", value, dtype=ir.DataType.FLOAT))
        branches = [ir.AttrGraph("then_branch", rounding), ir.AttrGraph("else_branch", passing)]
        node = ir.Node("", "If", [flag], branches, num_outputs=1, name=name)
        node.meta[_OWN] = True
        node.outputs[0].name, node.outputs[0].type = name, ir.TensorType(ir.DataType.FLOAT)
        at.add(node)
        return node.outputs[0]

    def where(self, at: Place, condition: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
        """One of two values of float32."""
        return self.emit(at, "Where", condition, one, other, dtype=ir.DataType.FLOAT)

    def vector(self, at: Place, parts: Sequence[ir.Value]) -> ir.Value:
        """Vectors of float32 in one."""
        return self.emit(at, "Concat", *parts, dtype=ir.DataType.FLOAT, axis=0)


class Place:
    """Where nodes go: one behind the other."""

    def __init__(self, graph: ir.Graph, behind: ir.Node | None = None, before: ir.Node | None = None) -> None:
        self._graph, self._behind, self._before = graph, behind, before

    @classmethod
    def behind(cls, value: ir.Value, outermost: ir.Graph) -> Place:
        """Right behind what gives a value: at the beginning of its graph for an input or an initializer."""
        maker = value.producer()
        if maker is not None:
            assert maker.graph is not None
            return cls(maker.graph, behind=maker)
        graph = value.graph or outermost
        return cls(graph, before=next(iter(graph), None))

    @classmethod
    def end(cls, graph: ir.Graph) -> Place:
        """At the end of a graph."""
        return cls(graph)

    def add(self, node: ir.Node) -> None:
        """Adds a node, and the next ones behind it."""
        if self._behind is not None:
            self._graph.insert_after(self._behind, node)
        elif self._before is not None:
            self._graph.insert_before(self._before, node)
        else:
            self._graph.append(node)
        self._behind = node
