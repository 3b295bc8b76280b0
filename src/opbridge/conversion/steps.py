"""A model from one opset to another, node by node and step by step.

Each node goes from the form of the model's opset to that of the target, by way of every opset in which its operator
changed. At each of these, the first of the following that there is:

1. the adapter for it (folder adapters),
2. where it came with that opset: its definition, the function that ONNX has for it,
3. the same call, if the other form takes it: its inputs, attributes and types,
4. its definition, where there is one,
5. the same call in a wider type, where that gives the same results (widening.py).

What is built on the way has the form of the opset at which it was built, and goes on from there. What has none of these
is refused; all such nodes are collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnx_ir as ir

from opbridge.conversion import adapters, schemas
from opbridge.conversion.functions import expanded
from opbridge.conversion.names import Names
from opbridge.conversion.placing import replace
from opbridge.conversion.report import Change, Refusal
from opbridge.conversion.step import LOWER, RAISE, Adapter, Refused, Step, infer
from opbridge.conversion.types import Types
from opbridge.conversion.widening import widened

__all__ = ["Converter"]

del adapters  # imported for what they register

_REVIEWED = 28
"""The newest opset whose changes of meaning the adapters know. Later ones are taken only if the words are the same."""

_CRASHING = frozenset({"Einsum"})
"""Operators whose inference has ended the process on calls that are not valid."""

_CONSTANTS_OF_ALL_TYPES = 9

_ONNX = ("", "ai.onnx")


class Converter:
    """Puts the nodes of a model in the form of another opset, in place.

    Args:
        model: The model.
        types: What is known of its values.
        target: The opset.
        name: Gives a value or a node that is built a new name.

    Attributes:
        changes: What was done to which node of the model.
        refusals: The nodes that cannot be put at that opset.
    """

    def __init__(self, model: ir.Model, types: Types, target: int, name: Callable[[str], str] | None = None) -> None:
        self.changes: list[Change] = []
        self.refusals: list[Refusal] = []
        self._model, self._types, self._target = model, types, target
        self._name = name or Names(model)

    def convert(self) -> None:
        """Converts all graphs and functions, and says so in their opsets."""
        model = self._model
        self._types.pass_to_functions(model)
        graphs: tuple[Any, ...] = (*model.functions.values(), model.graph)
        for graph in graphs:
            imports = graph.opset_imports
            opset = imports.pop("ai.onnx", None) or imports.get("", None)
            if opset is None:
                opset = model.graph.opset_imports.get("", self._target)
            self._graph(graph, opset)
            if self._target < _CONSTANTS_OF_ALL_TYPES and isinstance(graph, ir.Graph):
                self._store_constants(graph)
            if "" in imports or graph is model.graph or any(each.domain in _ONNX for each in graph):
                imports[""] = self._target

    def _graph(self, graph: Any, opset: int) -> None:
        nodes = list(graph)
        self._infer(nodes, opset)
        for node in nodes:
            for body in _bodies(node):
                self._graph(body, opset)
            if node.domain != "":
                continue
            said: list[str] = []
            try:
                self._settle(node, opset, said, top=True)
            except Refused as refused:
                self.refusals.append(Refusal.of(node, refused))
            else:
                self.changes.extend(Change.of(node, each) for each in dict.fromkeys(said))

    def _infer(self, nodes: list[ir.Node], opset: int) -> None:
        """Notes the types of the outputs of nodes, where they are not known."""
        for node in nodes:
            if node.domain == "ai.onnx":
                node.domain = ""
            if node.domain == "" and node.op_type not in _CRASHING:
                if any(each.name and self._types.shape(each) is None for each in node.outputs):
                    infer(node, opset, self._types)

    def settle(self, node: ir.Node, opset: int) -> None:
        """Takes one node of a graph from the form of an opset to that of the target, with its bodies.

        Raises:
            Refused: It has no form there.
        """
        self._settle(node, opset, [])

    def _body(self, graph: ir.Graph, opset: int, said: list[str]) -> None:
        """Converts a body of a node that was built."""
        nodes = list(graph)
        self._infer(nodes, opset)
        for node in nodes:
            self._settle(node, opset, said)

    def _store_constants(self, graph: ir.Graph) -> None:
        """Turns constants of types that Constant does not give into initializers."""
        for node in list(graph):
            for body in _bodies(node):
                self._store_constants(body)
            value = node.attributes.get("value")
            if node.op_type != "Constant" or node.domain != "" or value is None or node.outputs[0].is_graph_output():
                continue
            tensor = value.as_tensor()
            if tensor.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE):
                continue
            old = node.outputs[0]
            new = ir.Value(
                name=old.name,
                const_value=tensor,
                type=ir.TensorType(tensor.dtype),
                shape=ir.Shape(tensor.shape.numpy()),
            )
            ir.convenience.replace_all_uses_with(old, new)
            old.name = None
            graph.remove(node, safe=False)
            graph.register_initializer(new)

    def _settle(self, node: ir.Node, opset: int, said: list[str], *, top: bool = False) -> None:
        """Takes a node from the form of an opset to that of the target."""
        operator = node.op_type
        try:
            if not top:
                for body in _bodies(node):
                    self._body(body, opset, said)
            self._steps(node, opset, said, top)
        except Refused as refused:
            refused.operator = refused.operator or operator
            raise

    def _steps(self, node: ir.Node, opset: int, said: list[str], top: bool) -> None:
        since = schemas.changes(node.op_type)
        own = schemas.form(node.op_type, opset)
        if own is None:
            raise Refused(f"(no operator of ONNX's opset {opset})", None, "Give the node the domain of its operator.")
        if not top and (value := self._not_permitted(node, own)) is not None:
            # The nodes that are built on the way may be of a type that their form does not take.
            step = Step(node, self._types, opset + 1, opset, self._name)
            wide = widened(step, own)
            if wide is None:
                raise Refused(f"of {self._types.text(value)}")
            replace(step, wide[0])
            for new, form in step.new:
                self._settle(new, form, said)
            return
        down = opset > self._target
        stops = [each for each in since if self._target < each <= opset] if down else []
        if not down:
            stops = [each for each in since if opset < each <= self._target]
        for stop in sorted(stops, reverse=down):
            step = Step(node, self._types, stop, stop - 1 if down else stop, self._name)
            results, says = (self._lower if down else self._raise)(step)
            if says and top:
                said.append(says)
            if results is None:
                self._insert(step, node)
                for new, form in step.new:
                    self._settle(new, form, said)
                continue
            replace(step, results)
            for new, form in step.new:
                self._settle(new, form, said)
            return

    def _lower(self, step: Step) -> tuple[Any, str]:
        node, stop = step.node, step.changed
        source, target = schemas.form(node.op_type, stop), schemas.form(node.op_type, stop - 1)
        if (found := LOWER.get((node.op_type, stop))) is not None:
            return self._adapted(step, *found, source, target)
        assert source is not None
        if target is None or target.deprecated:
            return self._by_definition(step, source)
        return self._same(step, source, target)

    def _raise(self, step: Step) -> tuple[Any, str]:
        node, stop = step.node, step.changed
        source, target = schemas.form(node.op_type, stop - 1), schemas.form(node.op_type, stop)
        if (found := RAISE.get((node.op_type, stop))) is not None:
            return self._adapted(step, *found, source, target)
        if source is None:
            raise Refused("", stop, "Declare the opset that the model was written for.")
        assert target is not None
        if target.deprecated:
            return self._by_definition(step, source)
        return self._same(step, source, target)

    def _adapted(
        self,
        step: Step,
        adapter: Adapter,
        says: str,
        source: onnx.defs.OpSchema | None,
        target: onnx.defs.OpSchema | None,
    ) -> tuple[Any, str]:
        """What an adapter makes of a node; one that it changed in place is checked against the other form."""
        before = _written(step.node)
        results = adapter(step)
        if results is not None:
            return results, says
        changed = says if _written(step.node) != before else ""
        if target is None or target.deprecated:
            return None, changed
        for name in self._said(step.node, source or target, target)[1]:
            del step.node.attributes[name]
        results, more = self._same(step, target, target)
        return results, "; ".join(each for each in (changed, more) if each)

    def _by_definition(self, step: Step, source: onnx.defs.OpSchema) -> tuple[list[ir.Value | None], str]:
        results = expanded(step, source, self._target)
        built = dict.fromkeys(each.op_type for each, _ in step.new if each.op_type not in ("Constant", "Identity"))
        return results, f"replaced by its definition ({', '.join(built)})" if built else "replaced by its definition"

    def _same(self, step: Step, source: onnx.defs.OpSchema, target: onnx.defs.OpSchema) -> tuple[Any, str]:
        """The same call in another form of its operator."""
        node = step.node
        if max(source.since_version, target.since_version) > _REVIEWED and source.doc != target.doc:
            raise Refused("(in an unknown form)", step.changed)
        attributes, left_out = self._said(node, source, target)
        why = schemas.lacking(node, source, target, attributes)
        if why is None and (value := self._not_permitted(node, target)) is None:
            for name in left_out:
                node.attributes.pop(name, None)
            for name, value_ in attributes.items():
                if name not in node.attributes:
                    node.attributes[name] = ir.convenience.convert_attribute(name, value_)
            while node.inputs and node.inputs[-1] is None and len(node.inputs) > target.max_input:
                node.resize_inputs(len(node.inputs) - 1)
            if len(node.outputs) > target.max_output:
                node.resize_outputs(target.max_output)
            given = [name for name in left_out if name in source.attributes]
            return None, f"removed {', '.join(given)}, which has its default value" if given else ""
        needed = step.changed if step.to < step.changed else None
        if source.has_function or source.has_context_dependent_function:
            try:
                return self._by_definition(step, source)
            except Refused:
                pass
        if why is not None:
            raise Refused(why, needed)
        assert value is not None
        results = widened(step, target)
        if results is not None:
            return results
        raise Refused(f"of {self._types.text(value)}", needed, "Cast to a type that the older version supports.")

    def _said(
        self, node: ir.Node, source: onnx.defs.OpSchema, target: onnx.defs.OpSchema
    ) -> tuple[dict[str, Any], list[str]]:
        """The attributes that the call has to have in another form, and those that it need not have."""
        given = {name: None if each.is_ref() else each.value for name, each in node.attributes.items()}
        left_out = []
        for name, attribute in source.attributes.items():
            default = _default(attribute)
            in_target = target.attributes.get(name)
            if in_target is None:
                if name in given and not node.attributes[name].is_ref() and _equal(given[name], default):
                    del given[name]
                    left_out.append(name)
            elif name not in given and default is not None and not _equal(default, _default(in_target)):
                given[name] = default
        return given, left_out

    def _not_permitted(self, node: ir.Node, target: onnx.defs.OpSchema) -> ir.Value | None:
        """A value of a type that a form does not take."""
        if node.op_type == "Constant":
            return None  # before opset 9, those of other types than floats become initializers
        variables: dict[str, str] = {}
        for values, parameters in ((node.inputs, target.inputs), (node.outputs, target.outputs)):
            for at, value in enumerate(values):
                text = self._types.text(value)
                if value is None or text is None or not parameters or not value.name:
                    continue
                parameter = schemas.type_of_value(target, parameters, at)
                if text not in schemas.permitted(target, parameter):
                    return value
                if parameter.is_homogeneous and variables.setdefault(parameter.type_str, text) != text:
                    return value
        return None

    def _insert(self, step: Step, node: ir.Node) -> None:
        """Puts the nodes that were built in front of one that was changed in place."""
        if step.new:
            assert node.graph is not None
            node.graph.insert_before(node, [each for each, _ in step.new])


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The bodies of a node such as If."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from attribute.as_graphs()


def _written(node: ir.Node) -> tuple[Any, ...]:
    """What tells whether a node was changed."""
    return tuple(node.inputs), len(node.outputs), tuple((name, id(each)) for name, each in node.attributes.items())


def _default(attribute: Any) -> Any:
    return onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None


def _equal(value: Any, default: Any) -> bool:
    if isinstance(default, bytes):
        default = default.decode()
    if isinstance(value, bytes):
        value = value.decode()
    if default is None or isinstance(value, (ir.Graph, ir.TensorProtocol)):
        return False
    if isinstance(value, (list, tuple)) or isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return bool(value == default)
