"""A node at an opset in which its operator changed: what the adapters read it with, and build others with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from opbridge.conversion.schemas import form
from opbridge.conversion.types import Types
from opbridge.onnx import shapes
from opbridge.onnx.shapes import Sizes

__all__ = ["LOWER", "RAISE", "Adapter", "Refused", "Step", "infer", "lower", "raised"]


class Refused(Exception):
    """A call that the opset has no form for.

    Attributes:
        why: What it is about the call, to follow the operator's name.
        needed: The oldest opset that has it, where one has.
        remedy: What else can be done.
        operator: The operator, which may be one that the model's is composed of.
    """

    operator = ""

    def __init__(self, why: str, needed: int | None = None, remedy: str = "") -> None:
        super().__init__(why)
        self.why, self.needed, self.remedy = why, needed, remedy


@dataclass
class Step:
    """One node on its way from the form of one opset to that of the next.

    Attributes:
        node: The node.
        types: What is known of values.
        changed: The opset in which its operator changed.
        to: The opset whose form is built: `changed` where the opset is raised, one less where it is lowered.
        name: Gives a value a new name.
        new: The nodes that were built, with the opset whose form each has.
    """

    node: ir.Node
    types: Types
    changed: int
    to: int
    name: Callable[[str], str]
    new: list[tuple[ir.Node, int]] = field(default_factory=list)

    # What the node says

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.node.attributes

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        attribute = self.node.attributes.get(name)
        if attribute is None:
            return default
        if attribute.is_ref():
            self.refuse(f"with {name} as a parameter of a function", remedy="Inline the model's functions first.")
        return attribute.value

    def integers(self, name: str) -> list[int] | None:
        """The numbers of an attribute."""
        found = self.get(name)
        return None if found is None else [int(each) for each in found]

    def input(self, at: int) -> ir.Value | None:
        """An input; None where it is left out."""
        return self.node.inputs[at] if at < len(self.node.inputs) else None

    @property
    def data(self) -> ir.Value:
        """The first input."""
        first = self.input(0)
        if first is None:
            self.refuse("without its first input")
        return first

    def constant(self, at: int) -> np.ndarray | None:
        """The elements of an input that is constant; None where it is none, or left out."""
        return self.types.constant(self.input(at))

    def known(self, at: int, what: str) -> list[int] | None:
        """The numbers of an input; None where it is left out. One that the model computes is refused."""
        if self.input(at) is None:
            return None
        found = self.constant(at)
        if found is None:
            self.refuse(f"with {what} computed at run time", remedy=f"Make {what} constant in the model.")
        return [int(each) for each in found.ravel()]

    def dtype(self, value: ir.Value | None) -> ir.DataType:
        """The type of a value's elements; one that is not known is refused."""
        found = self.types.dtype(value)
        if found is None:
            self.refuse("of unknown type", remedy="Inline the model's functions, or infer its types first.")
        return found

    def shape(self, value: ir.Value | None) -> Sizes | None:
        """A value's sizes, as far as they are known."""
        return self.types.shape(value)

    def rank(self, value: ir.Value | None = None) -> int:
        """The number of a value's dimensions, the first input's by default; one that is not known is refused."""
        found = self.types.shape(self.data if value is None else value)
        if found is None:
            self.refuse("of a tensor of unknown rank", remedy="Add shapes to the model's inputs.")
        return len(found)

    def is_used(self, at: int) -> bool:
        """Whether anything reads an output."""
        if at >= len(self.node.outputs):
            return False
        value = self.node.outputs[at]
        return bool(value.name) and (bool(value.uses()) or value.is_graph_output())

    # The node itself, changed

    def set(self, **attributes: Any) -> None:
        """Gives the node attributes, and takes those that are None."""
        for name, value in attributes.items():
            if value is None:
                self.node.attributes.pop(name, None)
            else:
                self.node.attributes[name] = ir.convenience.convert_attribute(name, value)

    def put(self, *inputs: ir.Value | None) -> None:
        """Gives the node other inputs."""
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        self.node.resize_inputs(len(given))
        for at, value in enumerate(given):
            self.node.replace_input_with(at, value)

    def outputs(self, count: int) -> None:
        """Leaves only the first outputs, which nothing may read the others of."""
        if len(self.node.outputs) > count:
            self.node.resize_outputs(count)

    # Other nodes

    def number(self, value: Any, dtype: ir.DataType | np.dtype | type | None = None) -> ir.Value:
        """A constant: numbers, in a type of elements that is int64 or float32 by default."""
        array = np.asarray(value)
        if isinstance(dtype, ir.DataType):
            array = array.astype(dtype.numpy())
        elif dtype is not None:
            array = array.astype(dtype)
        elif array.dtype.kind == "f":
            array = array.astype(np.float32)
        elif array.dtype.kind in "iu":
            array = array.astype(np.int64)
        tensor = ir.tensor(array, dtype=dtype if isinstance(dtype, ir.DataType) else None)
        made = self.emit("Constant", value=tensor)
        self.types.set(made, onnx.helper.make_tensor_type_proto(int(tensor.dtype), list(array.shape)))
        return made

    def emit(self, op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Another operator, in the form of the opset that is built; its output, or all of several."""
        given = [each if each is None or isinstance(each, ir.Value) else self.number(each) for each in inputs]
        while given and given[-1] is None:
            given.pop()
        kept = {name: value for name, value in attributes.items() if value is not None}
        node = ir.node(op, given, attributes=kept, num_outputs=outputs)
        self.add(node, self.to)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def loop(
        self, count: int | ir.Value, value: ir.Value, iteration: Callable[[ir.Value, ir.Value], ir.Value]
    ) -> ir.Value:
        """A Loop that a value passes through a number of times; it keeps its type and shape.

        Args:
            count: The number of iterations, as an int or a scalar.
            value: The value before the first iteration.
            iteration: Builds one iteration, from its number, a scalar, and the value.
        """
        number = self.inside("iteration", ir.DataType.INT64, [])
        going = self.inside("go_on", ir.DataType.BOOL, [])
        carried = self.inside("carried", self.dtype(value), self.shape(value))
        iterations = self.number(count) if isinstance(count, int) else count
        outer, self.new = self.new, []
        results = [self.emit("Identity", going), iteration(number, carried)]
        nodes, self.new = [each for each, _ in self.new], outer
        body = ir.Graph([number, going, carried], results, nodes=nodes, name=self.name("body"))
        node = ir.node("Loop", [iterations, None, value], attributes={"body": body}, num_outputs=1)
        type_ = onnx.helper.make_tensor_type_proto(int(self.dtype(value)), self.shape(value))
        self.types.set(node.outputs[0], type_)
        self.add(node, self.to)
        return node.outputs[0]

    def inside(self, name: str, dtype: ir.DataType, sizes: Sizes | None) -> ir.Value:
        """An input of a body."""
        shape = None if sizes is None else ir.Shape(sizes)
        made = ir.Value(name=self.name(name), type=ir.TensorType(dtype), shape=shape)
        self.types.set(made, onnx.helper.make_tensor_type_proto(int(dtype), sizes))
        return made

    def add(self, node: ir.Node, opset: int) -> None:
        """Adds a node that was built otherwise, in the form of an opset."""
        base = next((each.name for each in self.node.outputs if each.name), "value")
        for value in node.outputs:
            if value.name != "":
                value.name = self.name(base)
        node.name = self.name(f"{self.node.name or base}")
        node.metadata_props.update(self.node.metadata_props)
        infer(node, opset, self.types)
        self.new.append((node, opset))

    def size(self, value: ir.Value, axis: int) -> int | ir.Value:
        """A value's size along an axis that is counted from the front: a number, or a tensor of one number."""
        found = self.shape(value)
        known = found[axis] if found is not None else None
        return known if isinstance(known, int) else self.emit("Gather", self.emit("Shape", value), [axis], axis=0)

    def sizes(self, *sizes: int | ir.Value) -> ir.Value:
        """Sizes as a shape."""
        if all(isinstance(each, int) for each in sizes):
            return self.number(np.asarray(sizes, np.int64))
        parts = [self.number([each]) if isinstance(each, int) else each for each in sizes]
        return parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)

    def product(self, sizes: Sequence[int | ir.Value]) -> int | ir.Value:
        """The product of sizes."""
        result: Any = math.prod(each for each in sizes if isinstance(each, int))
        for each in sizes:
            if not isinstance(each, int):
                result = each if isinstance(result, int) and result == 1 else self.emit("Mul", each, _row(result))
        return result

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """A value in another type."""
        return value if self.types.dtype(value) == dtype else self.emit("Cast", value, to=int(dtype))

    def unsqueezed(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """A value with new axes."""
        if self.to >= 13:
            return self.emit("Unsqueeze", value, list(axes))
        return self.emit("Unsqueeze", value, axes=list(axes))

    def squeezed(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """A value without axes of size 1."""
        if self.to >= 13:
            return self.emit("Squeeze", value, list(axes))
        return self.emit("Squeeze", value, axes=list(axes))

    def reduced(self, op: str, value: ir.Value, axes: Sequence[int], keepdims: int = 1) -> ir.Value:
        """A reduction over axes."""
        if self.to >= 18 or (op == "ReduceSum" and self.to >= 13):
            return self.emit(op, value, list(axes), keepdims=keepdims)
        return self.emit(op, value, axes=list(axes), keepdims=keepdims)

    def sliced(self, value: ir.Value, start: int, end: int, axis: int) -> ir.Value:
        """A part of a value along an axis."""
        if self.to >= 10:
            return self.emit("Slice", value, [start], [end], [axis])
        return self.emit("Slice", value, starts=[start], ends=[end], axes=[axis])

    def again(self, *inputs: Any, outputs: int | None = None, **attributes: Any) -> list[ir.Value]:
        """The same operator in the form that is built."""
        count = len(self.node.outputs) if outputs is None else outputs
        found = self.emit(self.node.op_type, *inputs, outputs=count, **attributes)
        return [found] if count == 1 else list(found)

    def refuse(self, why: str, remedy: str = "") -> NoReturn:
        """There is no form of the call at that opset.

        Args:
            why: What it is about the call, to follow the operator's name: "with a step".
            remedy: What else can be done about it than to choose another opset.
        """
        raise Refused(why, self.changed if self.to < self.changed else None, remedy)


def _row(value: int | ir.Value) -> Any:
    return [value] if isinstance(value, int) else value


def infer(node: ir.Node, opset: int, types: Types) -> None:
    """Notes the types of the outputs of a node that was added, as far as ONNX tells them."""
    schema = form(node.op_type, opset) if node.domain == "" else None
    if schema is None:
        return
    if node.op_type in ("If", "Loop"):
        _infer_bodies(node, opset, types)
        return
    proto = ir.serde.serialize_node(node)
    given, constants = {}, {}
    for value in node.inputs:
        if value is None or value.name is None:
            continue
        type_ = types.of(value)
        if type_ is not None:
            given[value.name] = type_
        constant = types.constant(value)
        if constant is not None and constant.size <= 64 and constant.dtype.kind in "iub":
            constants[value.name] = onnx.numpy_helper.from_array(constant)
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, proto, given, constants, opset_imports=[onnx.helper.make_opsetid("", opset)]
        )
    except Exception:  # what cannot be inferred is not known
        found = {}
    for value in node.outputs:
        if value.name in found:
            types.set(value, found[value.name])
    _infer_rank(node, types)
    _infer_sizes(node, opset, types)


def _infer_bodies(node: ir.Node, opset: int, types: Types) -> None:
    """Notes the types in the bodies of a node, and those of its outputs that follow from them."""
    attribute = node.attributes.get("then_branch" if node.op_type == "If" else "body")
    if attribute is None or attribute.is_ref():
        return
    graphs = [each.as_graph() for each in node.attributes.values() if each.type == ir.AttributeType.GRAPH]
    for graph in graphs:
        for parameter, given in zip(graph.inputs[2:], node.inputs[2:], strict=False):
            dtype = types.dtype(given)
            if dtype is not None and types.of(parameter) is None:
                types.set(parameter, onnx.helper.make_tensor_type_proto(int(dtype), None))
        for inner in graph:
            infer(inner, opset, types)
    results = attribute.as_graph().outputs
    carried = len(node.inputs) - 2
    for at, value in enumerate(node.outputs):
        place = at if node.op_type == "If" else at + 1
        if types.of(value) is not None or place >= len(results):
            continue
        dtype = types.dtype(results[place])
        ranks = [types.shape(graph.outputs[place]) for graph in graphs]
        same = len({None if each is None else len(each) for each in ranks}) == 1 and ranks[0] is not None
        if dtype is not None:
            known = ranks[0] is not None and same and (node.op_type == "If" or at < carried)
            sizes = [None] * len(ranks[0] or ()) if known else None
            types.set(value, onnx.helper.make_tensor_type_proto(int(dtype), sizes))


def _infer_sizes(node: ir.Node, opset: int, types: Types) -> None:
    """Notes what is known of shapes where ONNX says nothing, as where sizes are computed from dynamic dimensions."""
    if all(not each.name or types.shape(each) is not None for each in node.outputs):
        return
    for value, sizes in zip(node.outputs, shapes.infer(node, opset), strict=False):
        dtype = types.dtype(value)
        if sizes is not None and dtype is not None and types.shape(value) is None:
            types.set(value, onnx.helper.make_tensor_type_proto(int(dtype), sizes))


_OF_A_SHAPE = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}


def _infer_rank(node: ir.Node, types: Types) -> None:
    """Notes how many dimensions a tensor has whose sizes are computed: as many as there are sizes."""
    at = _OF_A_SHAPE.get(node.op_type)
    result = node.outputs[0]
    if at is None or at >= len(node.inputs) or types.shape(result) is not None:
        return
    count, dtype = types.shape(node.inputs[at]), types.dtype(result) or types.dtype(node.inputs[0])
    if count is None or len(count) != 1 or not isinstance(count[0], int) or dtype is None:
        return
    given = types.shape(node.inputs[0]) if node.op_type == "Expand" else []
    if given is not None:
        types.set(result, onnx.helper.make_tensor_type_proto(int(dtype), [None] * max(count[0], len(given))))


Adapter: TypeAlias = Callable[[Step], "Sequence[ir.Value | None] | None"]
"""Puts a node in another form: in place, with None, or with the values that take the place of its outputs."""

LOWER: dict[tuple[str, int], tuple[Adapter, str]] = {}
"""By operator and opset in which it changed: from the form of that opset to the one before it."""

RAISE: dict[tuple[str, int], tuple[Adapter, str]] = {}
"""By operator and opset in which it changed: from the form before it to that of that opset."""


def _register(table: dict[tuple[str, int], tuple[Adapter, str]], opset: int, names: Sequence[str], says: str) -> Any:
    def register(adapter: Adapter) -> Adapter:
        for name in names:
            table[name, opset] = (adapter, says)
        return adapter

    return register


def lower(opset: int, *names: str, says: str) -> Callable[[Adapter], Adapter]:
    """Registers what to do with operators that changed in an opset when it is lowered; `says` is for the report."""
    return _register(LOWER, opset, names, says)


def raised(opset: int, *names: str, says: str) -> Callable[[Adapter], Adapter]:
    """Registers what to do with operators that changed in an opset when it is raised; `says` is for the report."""
    return _register(RAISE, opset, names, says)
