"""What repairs a finding: for each rule that has one, a function that rewrites the model at the place that it found.

A repair leaves the results as they are. Where it cannot, it leaves the model as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as passes

from opbridge.fixing import small_repairs
from opbridge.onnx import opsets
from opbridge.rules.looking import Looked, bodies
from opbridge.rules.node_types import function_body
from opbridge.rules.of_facts import type_name

__all__ = ["REPAIRS", "Repair"]

Repair = Callable[[Looked, ir.Node | None], str]
"""Rewrites the model at a node, and says what it did; "" where it left the model as it is."""


def cast_to_one_type(looked: Looked, node: ir.Node | None) -> str:
    """mixed-types: inputs of one type variable are cast to the type of the first one, or to the widest."""
    assert node is not None
    schema = opsets.native_schema(node.op_type, looked.opset_of(node))
    if schema is None:
        return ""
    changed = []
    for variable in {schema.type_variable(at) for at in range(len(node.inputs)) if schema.homogeneous(at)}:
        places = [
            at
            for at, value in enumerate(node.inputs)
            if value is not None and value.dtype is not None and schema.type_variable(at) == variable
        ]
        types = [node.inputs[at].dtype for at in places]  # type: ignore[union-attr]
        if len(set(types)) < 2 or ir.DataType.STRING in types:
            continue
        # What is written into a tensor takes the type of that; of others, the one that holds the most.
        is_written = node.op_type.startswith("Scatter") or node.op_type in ("Where", "Clip", "Pad")
        wanted = types[0] if is_written else max(types, key=_width)
        for at in places:
            if node.inputs[at].dtype != wanted:  # type: ignore[union-attr]
                _cast_input(node, at, wanted)  # type: ignore[arg-type]
        for value in node.outputs:
            if value.dtype in types and value.dtype != wanted:
                value.type = ir.TensorType(wanted)  # type: ignore[arg-type]
        changed.append(type_name(wanted))
    return f"cast the inputs of {node.op_type} to {' and '.join(changed)}" if changed else ""


def _width(dtype: ir.DataType | None) -> tuple[bool, float]:
    assert dtype is not None
    return dtype.is_floating_point(), dtype.itemsize


def cast_exponent(looked: Looked, node: ir.Node | None) -> str:
    """mixed-pow: the exponent is cast to the type of the base, where that holds it."""
    assert node is not None
    base, exponent = node.inputs
    if base is None or exponent is None or base.dtype is None:
        return ""
    known = looked.constant(exponent)
    whole = known is not None and known.size and np.all(known == np.trunc(known))
    if not base.dtype.is_floating_point() and not whole:
        return ""
    if base.dtype == ir.DataType.FLOAT16 and known is None:
        return ""
    _cast_input(node, 1, base.dtype)
    return f"cast the exponent of Pow to {type_name(base.dtype)}"


def _cast_input(node: ir.Node, at: int, dtype: ir.DataType) -> None:
    """Puts a Cast before an input of a node."""
    value = node.inputs[at]
    assert value is not None and node.graph is not None
    cast = ir.Node("", "Cast", [value], attributes=[ir.AttrInt64("to", int(dtype))], name=f"{node.name}_cast_{at}")
    made = cast.outputs[0]
    made.name, made.type, made.shape = f"{value.name}_{type_name(dtype)}_{node.name}", ir.TensorType(dtype), value.shape
    cast.metadata_props.update(_origin_of(node))
    node.graph.insert_before(node, cast)
    node.replace_input_with(at, made)


def _origin_of(node: ir.Node) -> dict[str, str]:
    """What the file says of where a node comes from, for the nodes in its place."""
    return {key: text for key, text in node.metadata_props.items() if key != "opbridge.node"}


def remove_unused(looked: Looked, node: ir.Node | None) -> str:
    """unused-initializer: those that nothing reads are removed."""
    stored = looked.model.graph.initializers
    unused = [
        name
        for name, value in stored.items()
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input()
    ]
    for name in unused:
        stored.pop(name)
    return f"removed {len(unused)} initializer{'s' * (len(unused) != 1)} that nothing reads" if unused else ""


def rename(looked: Looked, node: ir.Node | None) -> str:
    """duplicate-names, branch-names: names are made unique in the whole model; its inputs and outputs keep theirs."""
    taken: set[str] = set()
    renamed = 0
    for each in looked.nodes:
        if each.name and each.name in taken:
            each.name = _free(each.name, taken)
            renamed += 1
        taken.add(each.name or "")
    values: set[str] = {value.name or "" for value in (*looked.model.graph.inputs, *looked.model.graph.outputs)}
    for each in looked.nodes:
        for body in bodies(each):
            for inner in body:
                for value in inner.outputs:
                    if value.name and value.name in values:
                        value.name = _free(value.name, values)
                        renamed += 1
                    values.add(value.name or "")
        values.update(value.name or "" for value in each.outputs)
    return f"gave {renamed} names that were taken another number" if renamed else ""


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number = number + 1 if number < 16 else max(number, len(taken)) + 1
    return f"{name}_{number}"


def in_other_operators(looked: Looked, node: ir.Node | None) -> str:
    """missing-operator, no-kernel, not-in-onnx: the operators that ONNX defines the operator by, in its place."""
    assert node is not None
    if node.domain not in ("", "ai.onnx") or node.graph is None:
        return ""
    if opsets.native_schema(node.op_type, looked.opset_of(node)) is None:
        return ""
    body = function_body(node, looked.opset_of(node))
    if body is None or not all(_is_same(each, body.opset, looked.opset_of(node)) for each in body.nodes):
        return ""
    if any(True for each in body.nodes for _ in bodies(each)):
        return ""
    for value, made_by in zip(node.outputs, body.outputs, strict=False):
        if made_by is None and (value.uses() or value.is_graph_output()):
            return ""
    made = dict(zip(body.inputs, node.inputs, strict=False))
    for number, each in enumerate(body.nodes):
        name = f"{node.name}_{each.op_type}_{number}"
        inputs = [None if value is None else made.get(value) for value in each.inputs]
        attributes = list(each.attributes.values())
        copy = ir.Node("", each.op_type, inputs, attributes=attributes, num_outputs=len(each.outputs), name=name)
        copy.metadata_props.update(_origin_of(node))
        for place, (value, new) in enumerate(zip(each.outputs, copy.outputs, strict=True)):
            new.name, new.type = f"{name}_{place}", value.type
            made[value] = new
        node.graph.insert_before(node, copy)
    outputs = [None if value is None else made.get(value) for value in body.outputs]
    for old, in_place in zip(node.outputs, outputs, strict=False):
        if in_place is not None:
            in_place.shape, in_place.type = old.shape, old.type
            _take_place(old, in_place)
    node.graph.remove(node, safe=True)
    return f"wrote {node.op_type} with {', '.join(dict.fromkeys(each.op_type for each in body.nodes))}"


def _is_same(node: ir.Node, version: int, opset: int) -> bool:
    """Whether an operator is the same in two opsets."""
    one, other = opsets.native_schema(node.op_type, version), opsets.native_schema(node.op_type, opset)
    return one is not None and other is not None and one.since == other.since


def _take_place(old: ir.Value, new: ir.Value) -> None:
    """Has a value read, and given by the graph, in the place of another one, under its name."""
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    old.name, new.name = f"{old.name}_before", old.name


def fold(looked: Looked, node: ir.Node | None) -> str:
    """constant-input, constant-condition: what is computed from constants alone is computed now."""
    from onnxscript import optimizer

    if small_repairs.gives_too_much(looked):
        return ""
    if not optimizer.fold_constants(looked.model).modified:
        return ""
    passes.RemoveUnusedNodesPass()(looked.model)
    return "computed what depends on constants alone"


REPAIRS: dict[str, Repair] = {
    "mixed-types": cast_to_one_type,
    "mixed-pow": cast_exponent,
    "unused-initializer": remove_unused,
    "duplicate-names": rename,
    "branch-names": rename,
    "missing-operator": in_other_operators,
    "no-kernel": in_other_operators,
    "constant-input": fold,
    "constant-condition": fold,
    "unfolded": fold,
    **small_repairs.REPAIRS,
}
"""The repairs, by the identifiers of the rules."""
