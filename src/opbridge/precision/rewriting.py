"""A model in its new types.

Rules:
    1. A node that stays in float32 gets its inputs in float32 and gives float32; another one gets and gives the format
       wherever its form has it.
    2. A value is cast once for each type that it is read in, right behind what gives it: also for the bodies that read
       it. A constant is stored in the type instead.
    3. What goes into a body and what comes out of one has the type that its node has outside.
    4. Inputs and outputs of the model keep their names, and their types where that is asked.
    5. Casts that no longer change a type are removed, and so are constants that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import onnx_ir as ir

from opbridge.precision.formats import Format, clamped
from opbridge.precision.forms import CONTROL_FLOW, Form
from opbridge.precision.tensors import CastTensor
from opbridge.precision.types import Floats, bodies, graphs

__all__ = ["LARGE", "Rewriter", "constant_of", "is_constant"]

LARGE = 1 << 10
"""Constants of so many elements are stored in the format also for nodes that stay for their values alone."""

_FLOAT = ir.DataType.FLOAT


def constant_of(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of an initializer that no input replaces, or of a Constant node; None where it is none."""
    if value is None:
        return None
    node = value.producer()
    if node is None:
        return None if value.is_graph_input() else value.const_value
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            return None
        if name == "value":
            return attribute.as_tensor()
        if name in ("value_float", "value_floats"):
            return ir.tensor(np.asarray(attribute.value, np.float32))
    return None


def is_constant(value: ir.Value | None) -> bool:
    """Whether a value is an initializer or what a Constant node gives."""
    return constant_of(value) is not None


class Rewriter:
    """Puts a model into a format, in place.

    Args:
        model: The model, without functions.
        to: The format.
        floats: Its values of float32.
        form: The form of a node.
        kept: The nodes that stay in float32.
        stored: Those of them whose large constants are stored in the format, and cast when they are read.
    """

    def __init__(
        self,
        model: ir.Model,
        to: Format,
        floats: Floats,
        form: Callable[[ir.Node], Form],
        kept: Collection[ir.Node],
        stored: Collection[ir.Node] = (),
    ) -> None:
        self._model, self._to, self._floats, self._form, self._kept = model, to, floats, form, kept
        self._stored = stored
        self._made: dict[ir.Value, ir.DataType] = {}
        self._cast: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
        self._tensors: dict[object, ir.TensorProtocol] = {}
        self._read: list[ir.TensorProtocol] = []  # they live, so that no other one gets their identity
        self._names = _all_names(model)
        self._casts: set[ir.Node] = set()

    def narrow_values(self) -> set[ir.Value]:
        """The values that are of the format afterwards, those that were before among them."""
        made = {value for value, dtype in self._made.items() if dtype == self._to.dtype}
        for graph in graphs(self._model.graph):
            outputs = [value for node in graph for value in node.outputs]
            for value in (*graph.inputs, *graph.initializers.values(), *outputs):
                if value not in self._made and self._floats.dtype(value) == self._to.dtype:
                    made.add(value)
        return made

    def rewrite(self, wide_inputs: Collection[ir.Value], wide_outputs: Collection[ir.Value]) -> None:
        """Rewrites the model.

        Args:
            wide_inputs: The inputs that keep float32.
            wide_outputs: The outputs that do.
        """
        graph = self._model.graph
        for value in graph.inputs:
            if value in self._floats and value not in wide_inputs:
                if value.const_value is not None:
                    value.const_value = self._narrow_tensor(value.const_value)
                self._becomes(value, self._to.dtype)
        wide = [
            value in wide_outputs if not value.is_graph_input() else self._made.get(value, _FLOAT) == _FLOAT
            for value in graph.outputs
        ]
        self._body(graph, [_FLOAT if each else self._to.dtype for each in wide], outermost=True)
        self._clean()

    def _body(self, graph: ir.Graph, outputs: list[ir.DataType], *, outermost: bool = False) -> None:
        """Rewrites a graph whose inputs have their types.

        Args:
            graph: The graph.
            outputs: The types that its outputs of float32 get.
            outermost: Whether its outputs are the model's, which have names.
        """
        for node in list(graph):
            self._node(node)
        for at, (value, dtype) in enumerate(zip(list(graph.outputs), outputs, strict=True)):
            if value not in self._floats:
                continue
            new = self._in_type(value, dtype)
            if new is value:
                continue
            if outermost:
                name = value.name or ""
                _rename(value, self._unused(f"{name}_{self._dtype(value).name.lower()}"))
                _rename(new, name)
                new.shape = new.shape or value.shape
            graph.outputs[at] = new

    def _node(self, node: ir.Node) -> None:
        form = None if node in self._kept else self._form(node)
        for at, value in enumerate(node.inputs):
            if value in self._floats:
                assert value is not None
                tensor = constant_of(value) if node in self._stored else None
                if tensor is not None and tensor.size >= LARGE and self._form(node).inputs[at]:
                    value = self._in_type(value, self._to.dtype)
                new = self._in_type(value, self._to.dtype if form is not None and form.inputs[at] else _FLOAT)
                if new is not node.inputs[at]:
                    node.replace_input_with(at, new)
        if node.domain in ("", "ai.onnx") and node.op_type in CONTROL_FLOW:
            dtype = _FLOAT if form is None else self._to.dtype
            for body in bodies(node):
                for value in body.inputs:
                    if value in self._floats:
                        self._becomes(value, dtype)
                self._body(body, [dtype] * len(body.outputs))
        else:
            for body in bodies(node):  # of an operator that is not known: as they were
                self._body(body, [_FLOAT] * len(body.outputs))
        if form is None:
            return
        if form.attribute and form.attribute != "value":
            node.attributes[form.attribute] = ir.AttrInt64(form.attribute, int(self._to.dtype))
        elif node.op_type == "ConstantOfShape" and form.changes:
            given = node.attributes.get("value")
            tensor = ir.tensor(np.zeros(1, np.float32)) if given is None else given.as_tensor()
            node.attributes["value"] = ir.AttrTensor("value", self._narrow_tensor(tensor))
        elif node.op_type == "Constant":
            return  # stored in each type that it is read in
        for value, is_half in zip(node.outputs, form.outputs, strict=True):
            if is_half:
                self._becomes(value, self._to.dtype)

    # Values in types

    def _dtype(self, value: ir.Value) -> ir.DataType:
        return self._made.get(value, _FLOAT)

    def _becomes(self, value: ir.Value, dtype: ir.DataType) -> None:
        self._made[value] = dtype
        if value.type is not None and dtype != _FLOAT:
            value.type = ir.TensorType(dtype)

    def _in_type(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """The value in a type: itself, a constant in it, or a Cast of it."""
        if self._dtype(value) == dtype:
            return value
        key = value, dtype
        if key not in self._cast:
            is_stored = is_constant(value) and dtype == self._to.dtype
            self._cast[key] = self._constant(value) if is_stored else self._cast_of(value, dtype)
        return self._cast[key]

    def _cast_of(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        name = self._unused(f"{value.name}_{'float32' if dtype == _FLOAT else self._to.name}")
        node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(dtype))], num_outputs=1, name=name)
        _place(node, value, self._model.graph)
        result = node.outputs[0]
        result.name, result.shape = name, value.shape
        result.type = ir.TensorType(dtype)
        self._casts.add(node)
        self._made[result] = dtype
        self._floats.note(result, dtype)
        return result

    def _constant(self, value: ir.Value) -> ir.Value:
        """A constant of the format: beside the one of float32, which goes where nobody reads it."""
        tensor = constant_of(value)
        assert tensor is not None
        narrow = self._narrow_tensor(tensor)
        name = self._unused(f"{value.name}_{self._to.name}")
        node = value.producer()
        if node is not None:
            made = ir.Node("", "Constant", [], [ir.AttrTensor("value", narrow)], num_outputs=1, name=name)
            assert node.graph is not None
            node.graph.insert_after(node, made)
            result = made.outputs[0]
            result.name = name
        else:
            result = ir.Value(name=name, const_value=narrow)
        result.type, result.shape = ir.TensorType(self._to.dtype), ir.Shape(narrow.shape.numpy())
        if node is None:
            graph = value.graph
            assert graph is not None
            graph.initializers[name] = result
        self._made[result] = self._to.dtype
        self._floats.note(result, self._to.dtype)
        return result

    def _narrow_tensor(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """The tensor in the format."""
        key: object = id(tensor)
        if isinstance(tensor, ir.ExternalTensor):  # tied weights are several tensors of one place
            key = tensor.path, tensor.offset, tensor.nbytes, tuple(tensor.shape)
        if key not in self._tensors:
            self._read.append(tensor)
            to = self._to
            if tensor.size <= LARGE:
                self._tensors[key] = ir.Tensor(clamped(tensor.numpy(), to).reshape(tensor.shape.numpy()), to.dtype)
            else:
                self._tensors[key] = CastTensor(tensor, to)
        return self._tensors[key]

    def _unused(self, name: str) -> str:
        made, count = name, 1
        while made in self._names:
            made, count = f"{name}_{count}", count + 1
        self._names.add(made)
        return made

    # What is left over

    def _clean(self) -> None:
        for graph in graphs(self._model.graph):
            for node in list(graph):
                self._remove_if_idle(graph, node)
        for (value, dtype), new in self._cast.items():
            if dtype == _FLOAT or new.producer() in self._casts:
                continue
            if not value.uses() and not value.is_graph_output():
                self._replace_constant(value, new)

    def _remove_if_idle(self, graph: ir.Graph, node: ir.Node) -> None:
        """Removes a Cast to the type that its input has."""
        if node.op_type != "Cast" or node.domain not in ("", "ai.onnx") or node.inputs[0] is None:
            return
        given, result = node.inputs[0], node.outputs[0]
        dtype = self._made.get(given) or self._floats.dtype(given)
        if dtype is None or dtype != ir.DataType(node.attributes["to"].as_int()) or result.is_graph_output():
            return
        if self._made.get(given) is None and self._made.get(result) is None:
            return  # as it was
        result.replace_all_uses_with(given)
        graph.remove(node, safe=True)

    def _replace_constant(self, value: ir.Value, new: ir.Value) -> None:
        """Takes a constant of float32 away, whose name the new one gets."""
        name, node = value.name or "", value.producer()
        if node is not None:
            assert node.graph is not None
            name_of_node = node.name
            node.graph.remove(node, safe=True)
            maker = new.producer()
            if maker is not None:
                maker.name = name_of_node
        else:
            assert value.graph is not None
            del value.graph.initializers[name]
        if not new.is_graph_output():
            value.name = None
            _rename(new, name)


def _rename(value: ir.Value, name: str) -> None:
    value.name = name


def _place(node: ir.Node, value: ir.Value, outermost: ir.Graph) -> None:
    """Puts a node right behind what gives a value."""
    maker = value.producer()
    if maker is not None:
        assert maker.graph is not None
        maker.graph.insert_after(maker, node)
        return
    graph = value.graph or outermost
    first = next(iter(graph), None)
    if first is None:
        graph.append(node)
    else:
        graph.insert_before(first, node)


def _all_names(model: ir.Model) -> set[str]:
    found: set[str] = set()
    for graph in graphs(model.graph):
        found.update(each.name or "" for each in (*graph.inputs, *graph.initializers.values()))
        for node in graph:
            found.add(node.name or "")
            found.update(each.name or "" for each in node.outputs)
    return found
