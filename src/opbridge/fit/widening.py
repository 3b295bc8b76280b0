"""Fits a model to its target.

Rules, in this order, node by node:
    1. Outputs that an operator may leave out, and that nobody reads, are left out.
    2. An operator without a kernel for its types, or that has them only in a later opset, computes in the next wider
       type that it has one for, and its results are cast back. Only types that hold every value of the narrower one are
       taken, so that nothing is lost.
    3. What still has no kernel is reported.
    4. What the target would compute wrongly is rewritten, by the target's own rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from opbridge.fit.targets import Target
from opbridge.onnx import opsets

__all__ = ["widen"]

_T = ir.DataType

_WIDER: dict[ir.DataType, tuple[ir.DataType, ...]] = {
    _T.BOOL: (_T.UINT8, _T.INT32, _T.INT64),
    _T.UINT8: (_T.INT32, _T.INT64),
    _T.INT8: (_T.INT32, _T.INT64),
    _T.UINT16: (_T.INT32, _T.INT64),
    _T.INT16: (_T.INT32, _T.INT64),
    _T.INT32: (_T.INT64,),
    _T.UINT32: (_T.INT64,),
    _T.FLOAT16: (_T.FLOAT,),
    _T.BFLOAT16: (_T.FLOAT,),
}

# Outputs from this one on may be left out when nobody reads them (their schemas call them optional).
_OPTIONAL_FROM = {"BatchNormalization": 1, "Dropout": 1, "LayerNormalization": 1, "MaxPool": 1, "Unique": 1}


def widen(model: ir.Model, target: Target) -> dict[str, str]:
    """Fits a model, in place.

    Args:
        model: Every value's type is known.
        target: What to fit it to.

    Returns:
        What the target cannot run: operator (as in the node's metadata "opbridge.operator") -> the reason.
    """
    problems: dict[str, str] = {}
    for graph in [model.graph, *model.graph.subgraphs()]:
        for node in list(graph):
            _drop_unread_outputs(node)
            if node.domain not in ("", "ai.onnx") or node.op_type == "Constant":  # which runtimes read at load
                continue
            types = _types(node, target.opset)
            if types is None or not _lacks(node, types, target):
                continue
            wider = _wider(node, types, target)
            if wider is None:
                said = ", ".join(sorted({dtype.name.lower() for dtype in types.values()}))
                operator = node.metadata_props.get("opbridge.operator", node.op_type)
                problems[operator] = f"{target.name} {target.version} has no kernel for {node.op_type} of {said}"
                problems[operator] += _later(node, types, target)
            else:
                _widen(graph, node, target.opset, *wider)
    target.repair(model)
    return problems


def _drop_unread_outputs(node: ir.Node) -> None:
    first = _OPTIONAL_FROM.get(node.op_type)
    if first is None or node.domain != "":
        return
    count = len(node.outputs)
    while count > first and not node.outputs[count - 1].uses() and not node.outputs[count - 1].is_graph_output():
        count -= 1
    if count < len(node.outputs):
        node.resize_outputs(count)


def _named(node: ir.Node, opset: int) -> Iterator[tuple[str, ir.Value]]:
    """The node's values with the names of their type variables."""
    schema = opsets.schema_for(node.op_type, opset, written_for=opset)
    for position, value in enumerate(node.inputs):
        if value is not None:
            yield schema.type_variable(position), value
    for position, value in enumerate(node.outputs):
        yield schema.outputs[min(position, len(schema.outputs) - 1)].type_constraint.name, value


def _types(node: ir.Node, opset: int) -> dict[str, ir.DataType] | None:
    """The types that the node's type variables stand for; None where one is no tensor or not known."""
    types: dict[str, ir.DataType] = {}
    for name, value in _named(node, opset):
        if not isinstance(value.type, ir.TensorType):
            return None
        types.setdefault(name, value.type.dtype)
    return types


def _lacks(node: ir.Node, types: dict[str, ir.DataType], target: Target) -> bool:
    spelled = {name: _spelled(dtype) for name, dtype in types.items()}
    if not opsets.allows(node.op_type, target.opset, spelled):
        return True
    return target.lacks(node.op_type, target.opset, spelled) and not _is_function_only(node.op_type, target)


def _later(node: ir.Node, types: dict[str, ir.DataType], target: Target) -> str:
    """Which later opset's models have the operator with these types, as the end of a sentence."""
    for opset in range(target.opset + 1, target.newest + 1):
        if opsets.native_schema(node.op_type, opset) is not None and not _lacks(
            node, types, dataclasses.replace(target, opset=opset)
        ):
            return f" at opset {target.opset}. Export with opset_version={opset} or newer."
    return "."


def _is_function_only(op_type: str, target: Target) -> bool:
    """Whether ONNX defines an operator by others and the target has no kernel of its own for it, for any types."""
    schema = onnx.defs.get_schema(op_type, target.opset)
    return (schema.has_function or schema.has_context_dependent_function) and target.lacks(op_type, target.opset, {})


def _spelled(dtype: ir.DataType) -> str:
    return f"tensor({dtype.name.lower()})"


def _wider(
    node: ir.Node, types: dict[str, ir.DataType], target: Target
) -> tuple[frozenset[str], ir.DataType, ir.DataType] | None:
    """The type variables to widen, from which type, and to which."""
    schema = opsets.schema_for(node.op_type, target.opset, written_for=target.opset)
    # A type that no input has is one that an attribute names.
    taken = {schema.type_variable(position) for position in range(len(node.inputs))}
    for narrow in dict.fromkeys(types.values()):
        for wide in _WIDER.get(narrow, ()):
            casts = ({"T1": _spelled(narrow), "T2": _spelled(wide)}, {"T1": _spelled(wide), "T2": _spelled(narrow)})
            if not all(opsets.allows("Cast", target.opset, cast) for cast in casts):
                continue
            # The condition of a Where is a truth value, whatever else is one too.
            names = frozenset(
                name
                for name, dtype in types.items()
                if dtype == narrow
                and name in taken
                and opsets.allows(node.op_type, target.opset, {name: _spelled(wide)})
            )
            for chosen in (names, *(frozenset({name}) for name in sorted(names) if len(names) > 1)):
                if chosen and not _lacks(
                    node, {name: wide if name in chosen else dtype for name, dtype in types.items()}, target
                ):
                    return chosen, narrow, wide
    return None


def _widen(
    graph: ir.Graph, node: ir.Node, opset: int, names: frozenset[str], narrow: ir.DataType, wide: ir.DataType
) -> None:
    schema = opsets.schema_for(node.op_type, opset, written_for=opset)
    for position, value in enumerate(node.inputs):
        if value is not None and schema.type_variable(position) in names:
            cast = _cast(node, value, wide, f"{node.name}/in{position}")
            graph.insert_before(node, cast)
            node.replace_input_with(position, cast.outputs[0])
    for position, value in enumerate(node.outputs):
        if schema.outputs[min(position, len(schema.outputs) - 1)].type_constraint.name not in names:
            continue
        cast = _cast(node, value, narrow, f"{node.name}/out{position}")
        graph.insert_after(node, cast)
        # The cast takes over the value's readers, its name and its place among the graph's outputs.
        result = cast.outputs[0]
        ir.convenience.replace_all_uses_with(value, result, replace_graph_outputs=True)
        cast.replace_input_with(0, value)
        name, value.name = value.name, f"{value.name}/wide"
        result.name = name
        value.type = ir.TensorType(wide)


def _cast(node: ir.Node, value: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
    cast = ir.Node(
        "",
        "Cast",
        [value],
        [ir.AttrInt64("to", int(dtype))],
        num_outputs=1,
        name=name,
        metadata_props={key: text for key, text in node.metadata_props.items() if key != "opbridge.node"},
    )
    cast.outputs[0].name = name
    cast.outputs[0].type = ir.TensorType(dtype)
    cast.outputs[0].shape = value.shape
    return cast
