"""An operator replaced by its definition: the function that ONNX defines it by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir

from opbridge.conversion.step import Refused, Step

__all__ = ["expanded"]


def expanded(step: Step, schema: onnx.defs.OpSchema, target: int) -> list[ir.Value | None]:
    """The values of an operator's definition, whose nodes are added; None for an output that nobody reads.

    Args:
        step: The node.
        schema: Its form.
        target: The opset that the model is converted to.

    Raises:
        Refused: It has none, or none for this call.
    """
    proto = _definition(step, schema, target)
    if proto is None:
        raise Refused("", schema.since_version)
    written = next((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), target)
    made = {*proto.input, *(name for node in proto.node for name in node.output)}
    kept = [name if name in made else None for name in proto.output]  # what nobody reads may be left out
    if any(name is None and step.is_used(at) for at, name in enumerate(kept)):
        raise Refused("with an output that its definition does not have", schema.since_version)
    del proto.output[:]
    proto.output.extend(name for name in kept if name is not None)
    body = ir.serde.deserialize_function(proto)
    _bind(body, step, schema)
    for at, parameter in enumerate(body.inputs):
        given = step.input(at)
        for node, place in list(parameter.uses()):
            node.replace_input_with(place, given)
    outputs = iter(list(body.outputs))
    results: list[ir.Value | None] = []
    for name in kept[: len(step.node.outputs)]:
        found = None if name is None else next(outputs)
        results.append(step.input(body.inputs.index(found)) if found in body.inputs else found)
    body.outputs.clear()  # a value is an output of one graph only
    nodes = list(body)
    _rename(nodes, step)
    for node in nodes:
        body.remove(node, safe=False)
        step.add(node, written)
    # A result that is an input, or twice the same, has to be a value of its own.
    own: list[ir.Value | None] = []
    for at, value in enumerate(results):
        if kept[at] is None:
            own.append(None)
        elif value is not None and value.producer() in nodes and value not in own:
            own.append(value)
        else:
            own.append(_copied(step, value))
    return own


def _copied(step: Step, value: Any) -> ir.Value:
    if value is None:
        raise Refused("without an input that its definition requires")
    made: ir.Value = step.emit("Identity", value)
    return made


def _definition(step: Step, schema: onnx.defs.OpSchema, target: int) -> onnx.FunctionProto | None:
    """The definition for the opset that is nearest to the target."""
    plain, of_types = schema.function_opset_versions, schema.context_dependent_function_opset_versions
    for opset in sorted(plain, key=lambda each: abs(each - target)):
        return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(opset))
    given = []
    for value in step.node.inputs:
        type_ = step.types.of(value)
        if value is not None and type_ is None:
            raise Refused("of unknown type", schema.since_version, "Inline the model's functions, or infer its types.")
        given.append((type_ or onnx.TypeProto()).SerializeToString())
    call = ir.serde.serialize_node(step.node)
    for opset in sorted(of_types, key=lambda each: abs(each - target)):
        try:
            content = schema.get_context_dependent_function_with_opset_version(opset, call.SerializeToString(), given)
        except Exception:  # it has none for these types or attributes
            continue
        found = onnx.FunctionProto.FromString(content)
        if found.node:
            return found
    return None


def _bind(body: ir.Function, step: Step, schema: onnx.defs.OpSchema) -> None:
    """Gives the nodes the attributes of the call, or their defaults."""
    for node in _all(list(body)):
        for name, attribute in list(node.attributes.items()):
            if not attribute.is_ref():
                continue
            of_call = attribute.ref_attr_name or ""
            found = step.node.attributes.get(of_call)
            if found is None and of_call in schema.attributes:
                default = schema.attributes[of_call].default_value
                found = ir.serde.deserialize_attribute(default) if default.name else None
            if found is None:
                del node.attributes[name]
            else:
                node.attributes[name] = ir.Attr(name, found.type, found.value)


def _all(nodes: list[ir.Node]) -> Iterator[ir.Node]:
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                yield from _all(list(attribute.as_graph()))


def _rename(nodes: list[ir.Node], step: Step) -> None:
    """Gives the values of bodies names that the model does not have; those of the nodes themselves get theirs later."""
    for node in nodes:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                graph = attribute.as_graph()
                for value in (*graph.inputs, *graph.initializers.values()):
                    value.name = step.name(value.name or "value")
                inner = list(graph)
                for each in inner:
                    for value in each.outputs:
                        if value.name:
                            value.name = step.name(value.name)
                _rename(inner, step)
