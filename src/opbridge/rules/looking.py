"""A model as the rules look at it: its nodes with all bodies, and what is known of its values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.base.garbage import no_collection
from opbridge.onnx import opsets
from opbridge.onnx.damage import problem
from opbridge.onnx.shapes import Sizes, infer, sizes
from opbridge.rules.node_types import give_types
from opbridge.runtimes.onnxruntime import kernel_table

__all__ = [
    "LARGEST",
    "Looked",
    "bodies",
    "carried",
    "computed_from",
    "differ",
    "name_of",
    "readable",
    "stored",
    "type_name",
]

LARGEST = 1 << 16
"""Constants of more elements than this are not looked into."""

_NOT_FOLDED = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
_ONNX = ("", "ai.onnx")
_LARGEST_OPSET = (1 << 31) - 1
_FARTHEST = 64


class Looked:
    """A model with what is known of its values. Shapes that the file does not have are inferred, in place.

    Args:
        model: The model.
        before: The same model before it was changed, whose shapes were inferred then; None: it is looked at first.

    Attributes:
        model: The model.
        opset: Its opset of ONNX's own operators.
        nodes: All its nodes, those of bodies and functions included, each after those that it reads.
        early: The nodes that read values which nothing before them gives, with these values.
        malformed: The nodes that are not as their operator's schema has them, with what is wrong; "" where ONNX has no
            such operator at the opset.
        said: The nodes with shapes or types of outputs that the file says, and that are not inferred here.
    """

    def __init__(self, model: ir.Model, before: Looked | None = None) -> None:
        self.model = model
        self._said_before = None if before is None else before.said
        self.opset = _opset(model.graph.opset_imports, 1)
        self.nodes: list[ir.Node] = []
        self.said: set[ir.Node] = set()
        self.malformed: dict[ir.Node, str] = {}
        self._known: set[ir.Value] = set()
        self.early: dict[ir.Node, list[ir.Value]] = {}
        self._given: set[ir.Value] = set()
        self._types: dict[ir.Node, tuple[ir.DataType | None, ...]] = {}
        self._same_types: dict[tuple[ir.DataType | None, ...], tuple[ir.DataType | None, ...]] = {}
        self._same_shapes: dict[tuple[int | str | None, ...], ir.Shape] = {}
        self._others: dict[ir.Node, int] = {}
        self._functions: dict[ir.Node, int] = {}
        with no_collection():
            self._walk(model.graph, self.opset)
            for number, each in enumerate(model.functions.values(), 1):
                first = len(self.nodes)
                self._walk(each, _opset(each.opset_imports, self.opset))
                self._functions.update(dict.fromkeys(self.nodes[first:], number))
        self._given.clear()  # it is for the walk alone, and large

    def _walk(self, graph: Any, opset: int) -> None:
        self._given.update(graph.inputs)
        if isinstance(graph, ir.Graph):
            self._known.update(graph.initializers.values())
            self._given.update(graph.initializers.values())
        for node in graph:
            self.nodes.append(node)
            if missing := [each for each in node.inputs if each is not None and each not in self._given]:
                self.early[node] = missing
            if opset != self.opset:
                self._others[node] = opset
            inner = tuple(bodies(node)) if node.attributes else ()
            for body in inner:
                self._walk(body, opset)
            self._infer(node)
            self._given.update(node.outputs)
            if not inner and self._is_known(node):
                self._known.update(node.outputs)

    def _infer(self, node: ir.Node) -> None:
        if node.domain not in _ONNX:
            return
        opset = self.opset_of(node)
        wrong = problem(node, opset)
        if wrong or opsets.native_schema(node.op_type, opset) is None:
            self.malformed[node] = wrong
            return
        if self._said_before is None or node in self._said_before:
            if any(each.shape is not None or each.type is not None for each in node.outputs):
                self.said.add(node)
        if any(each.type is None for each in node.outputs):
            give_types(node, self.opset_of(node))
        if all(each.shape is not None for each in node.outputs):
            return
        for value, shape in zip(node.outputs, infer(node, self.opset_of(node)), strict=True):
            if value.shape is None and shape is not None:
                value.shape = self._shape_of(tuple(shape))

    def _shape_of(self, sizes: tuple[int | str | None, ...]) -> ir.Shape:
        """A shape, one for all values that have it: a large model has few."""
        if sizes not in self._same_shapes:
            self._same_shapes[sizes] = ir.Shape(sizes, frozen=True)
        return self._same_shapes[sizes]

    def _is_known(self, node: ir.Node) -> bool:
        if node in self.malformed or node.op_type in _NOT_FOLDED or node.domain not in _ONNX:
            return False
        if node.op_type in ("Shape", "Size"):
            found = sizes(node.inputs[0]) if node.inputs else None
            return found is not None and all(isinstance(each, int) for each in found)
        return all(each is None or each in self._known for each in node.inputs)

    def opset_of(self, node: ir.Node) -> int:
        """The opset that a node is of: the model's, or that of the function that it is in."""
        return self._others.get(node, self.opset)

    def function_of(self, node: ir.Node) -> int:
        """The number of the function whose body a node is in, from 1 on; 0: it is in none."""
        return self._functions.get(node, 0)

    def is_stored(self, value: ir.Value) -> bool:
        """Whether a value is an initializer, or the output of a Constant."""
        producer = value.producer()
        return value.is_initializer() or (producer is not None and producer.op_type == "Constant")

    def is_known(self, value: ir.Value) -> bool:
        """Whether a value is stored, or computed from such values alone."""
        return value in self._known

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The elements of a value that is stored; None for others, and for those that are too many."""
        tensor = None if value is None else stored(value)
        return None if tensor is None or tensor.size > LARGEST else readable(tensor)

    @functools.cached_property
    def places(self) -> Mapping[ir.Node, int]:
        """The place of each node in the order of the file."""
        return {node: at for at, node in enumerate(self.nodes)}

    @functools.cached_property
    def first_of(self) -> Mapping[str, ir.Node]:
        """The first node of each operator of ONNX."""
        return {each.op_type: each for each in reversed(self.nodes) if each.domain in _ONNX}

    @functools.cached_property
    def names(self) -> set[str]:
        """The names of all values. Whoever gives a value another one adds it."""
        found = {each.name for node in self.nodes for each in (*node.inputs, *node.outputs) if each is not None}
        found.update((*self.model.graph.initializers, *(each.name for each in self.model.graph.inputs)))
        return {each for each in found if each}

    def types_of_inputs(self, node: ir.Node) -> tuple[ir.DataType | None, ...]:
        """The element types of a node's inputs; None for one that is not known, or no tensor."""
        found = self._types.get(node)
        if found is None:
            types = (None if each is None else each.type for each in node.inputs)
            found = tuple(each.dtype if isinstance(each, ir.TensorType) else None for each in types)
            found = self._types[node] = self._same_types.setdefault(found, found)
        return found

    def forget_types(self, node: ir.Node) -> None:
        """Forgets the types of a node's inputs, which were changed."""
        self._types.pop(node, None)

    def input(self, node: ir.Node, name: str) -> ir.Value | None:
        """An input of a node by its name in the schema, "" for the first one; None where it is not given."""
        at = 0 if not name else _places(name_of(node), self.opset_of(node), True).get(name)
        return node.inputs[at] if at is not None and at < len(node.inputs) else None

    def output(self, node: ir.Node, name: str) -> ir.Value | None:
        """An output of a node by its name in the schema, where it is used or given a name."""
        value = self.named_output(node, name)
        return value if value is not None and (value.uses() or value.is_graph_output()) else None

    def named_output(self, node: ir.Node, name: str) -> ir.Value | None:
        """An output of a node by its name in the schema, where the node gives it a name, read or not."""
        at = _places(name_of(node), self.opset_of(node), False).get(name)
        return node.outputs[at] if at is not None and at < len(node.outputs) and node.outputs[at].name else None

    def attribute(self, node: ir.Node, name: str) -> Any:
        """An attribute's value, or its default in the schema where the node does not have it; None: neither."""
        attribute = node.attributes.get(name)
        if attribute is None:
            schema = opsets.native_schema(name_of(node), self.opset_of(node))
            declared = None if schema is None else schema.attributes.get(name)
            attribute = None if declared is None else declared.default
        return None if attribute is None else attribute.value

    def has_attributes(self, node: ir.Node, when: Sequence[str]) -> bool:
        """Whether a node's attributes are as a fact says: "mode=nearest"."""
        wanted = (each.partition("=")[::2] for each in when)
        return all(str(self.attribute(node, name)) == value for name, value in wanted)

    def revision(self, node: ir.Node) -> int:
        """The opset that the form of a node's operator is from; 0: not known."""
        schema = opsets.native_schema(name_of(node), self.opset_of(node))
        return 0 if schema is None else schema.since

    def shape(self, value: ir.Value | None) -> Sizes | None:
        """A value's shape; None where not even the number of dimensions is known."""
        return sizes(value)


def _opset(imports: Mapping[str, int], default: int) -> int:
    """The opset of ONNX's own operators that is imported; a number that none can be is cut off."""
    return min(max(imports.get("", imports.get("ai.onnx", default)), 1), _LARGEST_OPSET)


@functools.cache
def _places(operator: str, opset: int, of_inputs: bool) -> dict[str, int]:
    """The places of an operator's inputs or outputs by their names."""
    domain, separator, name = operator.rpartition("::")
    if separator:
        arguments = kernel_table.arguments(domain).get(name, ((), ()))
        return {each: at for at, each in enumerate(arguments[0 if of_inputs else 1])}
    schema = opsets.native_schema(operator, opset)
    if schema is None:
        return {}
    return {each.name: at for at, each in enumerate(schema.inputs if of_inputs else schema.outputs)}


def stored(value: ir.Value) -> Any:
    """The tensor of a value that is stored; None for others."""
    producer = value.producer()
    if value.const_value is None and producer is not None and producer.op_type == "Constant":
        return _of_constant(producer)
    return value.const_value


def readable(tensor: Any) -> np.ndarray | None:
    """The elements of a tensor; None where they cannot be read, as of a file that is not there."""
    try:
        return np.asarray(tensor.numpy())
    except Exception:  # onnx_ir and numpy raise anything for a damaged one
        return None


def _of_constant(node: ir.Node) -> Any:
    for name in ("value", "value_int", "value_ints", "value_float", "value_floats"):
        if (attribute := node.attributes.get(name)) is not None:
            if name != "value":
                return ir.tensor(np.asarray(attribute.value))
            return attribute.value if attribute.type == ir.AttributeType.TENSOR else None
    return None


def differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two shapes of the same rank have a dimension of which both sizes are known and unlike."""
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(one, other, strict=True))


def carried(node: ir.Node, body: ir.Graph) -> Iterator[tuple[ir.Value, ir.Value]]:
    """What a Loop carries: each input of its body, with the output that is the input of the next iteration."""
    return zip(body.inputs[2:], body.outputs[1 : len(node.inputs) - 1], strict=False)


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The bodies of a node such as If."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.value
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.value


def computed_from(
    value: ir.Value, until: Callable[[ir.Value], bool] = lambda _: False
) -> Iterator[tuple[ir.Value, ir.Node]]:
    """What a size is computed from: values with their producers, the nearest 64 at most, as far as shapes.

    Args:
        value: The size.
        until: Tells values at which to stop, which are left out.
    """
    waiting = [value]
    seen: set[ir.Node] = set()
    while waiting and len(seen) < _FARTHEST:
        current = waiting.pop()
        producer = current.producer()
        if producer is None or producer in seen or until(current):
            continue
        seen.add(producer)
        yield current, producer
        if producer.op_type not in ("Shape", "Size"):
            waiting.extend(each for each in producer.inputs if each is not None)


def name_of(node: ir.Node) -> str:
    """A node's operator as facts name it: "TopK", "com.microsoft::FusedConv"."""
    return node.op_type if node.domain in _ONNX else f"{node.domain}::{node.op_type}"


def type_name(dtype: ir.DataType) -> str:
    """A type as facts name it: "float32", "bfloat16", "bool"."""
    return {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}.get(dtype, dtype.name.lower())
