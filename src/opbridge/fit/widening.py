"""Rewrites for a target: wider types where kernels are missing, and the target's own corrections.

Rules, in this order, node by node:
    1. Optional outputs that no node reads are removed.
    2. An operator without a kernel for its types computes in the next wider type that has one, and its results are cast
       back. The same holds for types that its schema allows in a later opset only. A wider type can represent every
       value of the narrower one, so that the cast is exact.
    3. An operator that has no kernel for wider types either is reported.
    4. Nodes that the target would compute wrongly are rewritten by the target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import onnx_ir as ir

from opbridge.fit.target import Target
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

# The first output that the operator's schema declares as optional.
_OPTIONAL_FROM = {"BatchNormalization": 1, "Dropout": 1, "LayerNormalization": 1, "MaxPool": 1, "Unique": 1}


def widen(model: ir.Model, target: Target) -> dict[str, str]:
    """Rewrites a model for its target, in place.

    Args:
        model: The model. The types of all its values are known.
        target: The target.

    Returns:
        The operators that the target cannot run, as in the metadata "opbridge.operator" of nodes, with the reasons.
    """
    problems: dict[str, str] = {}
    for graph in [model.graph, *model.graph.subgraphs()]:
        for node in list(graph):
            _drop_unread_outputs(node)
            if (
                node.domain not in ("", "ai.onnx") or node.op_type == "Constant"
            ):  # it is evaluated when the model is loaded
                continue
            types = _types(node, target.opset)
            if types is None or not _lacks_kernel(node, types, target):
                continue
            wider = _wider(node, types, target)
            if wider is None:
                said = ", ".join(sorted({dtype.name.lower() for dtype in types.values()}))
                operator = node.metadata_props.get("opbridge.operator", node.op_type)
                problems[operator] = f"{target.name} {target.version} has no kernel for {node.op_type} of {said}"
                problems[operator] += _newer_opset_hint(node, types, target)
            else:
                _widen(graph, node, target.opset, *wider)
    target.correct(model)
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


def _values_by_type_variable(node: ir.Node, opset: int) -> Iterator[tuple[str, ir.Value]]:
    """The node's inputs and outputs with the type variables that the schema gives them."""
    schema = opsets.schema_for(node.op_type, opset, written_for=opset)
    for position, value in enumerate(node.inputs):
        if value is not None:
            yield schema.type_variable(position), value
    for position, value in enumerate(node.outputs):
        yield schema.outputs[min(position, len(schema.outputs) - 1)].type_constraint.name, value


def _types(node: ir.Node, opset: int) -> dict[str, ir.DataType] | None:
    """The element types of the node's type variables; None where a value is no tensor or has no type."""
    types: dict[str, ir.DataType] = {}
    for name, value in _values_by_type_variable(node, opset):
        if not isinstance(value.type, ir.TensorType):
            return None
        types.setdefault(name, value.type.dtype)
    return types


def _lacks_kernel(node: ir.Node, types: dict[str, ir.DataType], target: Target) -> bool:
    """Whether the schema or the target's kernels do not allow these types."""
    spelled = {name: _spelled(dtype) for name, dtype in types.items()}
    if not opsets.allows(node.op_type, target.opset, spelled):
        return True
    return target.lacks_kernel(node.op_type, target.opset, spelled) and not _is_function_only(node.op_type, target)


def _newer_opset_hint(node: ir.Node, types: dict[str, ir.DataType], target: Target) -> str:
    """The end of a sentence that names the next opset in which the target runs the operator with these types."""
    for opset in range(target.opset + 1, target.newest + 1):
        if opsets.native_schema(node.op_type, opset) is not None and not _lacks_kernel(
            node, types, dataclasses.replace(target, opset=opset)
        ):
            return f" at opset {target.opset}. Export with opset_version={opset} or newer."
    return "."


def _is_function_only(op_type: str, target: Target) -> bool:
    """Whether the target runs an operator only by the function of other operators that ONNX defines it as."""
    return opsets.is_function(op_type, target.opset) and target.lacks_kernel(op_type, target.opset, {})


def _spelled(dtype: ir.DataType) -> str:
    return f"tensor({dtype.name.lower()})"


def _wider(
    node: ir.Node, types: dict[str, ir.DataType], target: Target
) -> tuple[frozenset[str], ir.DataType, ir.DataType] | None:
    """The type variables to widen, from which type, and to which."""
    schema = opsets.schema_for(node.op_type, target.opset, written_for=target.opset)
    # A type variable that no input has is determined by an attribute.
    input_variables = {schema.type_variable(position) for position in range(len(node.inputs))}
    for narrow in dict.fromkeys(types.values()):
        for wide in _WIDER.get(narrow, ()):
            casts = ({"T1": _spelled(narrow), "T2": _spelled(wide)}, {"T1": _spelled(wide), "T2": _spelled(narrow)})
            if not all(opsets.allows("Cast", target.opset, cast) for cast in casts):
                continue
            # The schema may allow bool only, as for the condition of Where.
            names = frozenset(
                name
                for name, dtype in types.items()
                if dtype == narrow
                and name in input_variables
                and opsets.allows(node.op_type, target.opset, {name: _spelled(wide)})
            )
            for chosen in (names, *(frozenset({name}) for name in sorted(names) if len(names) > 1)):
                if chosen and not _lacks_kernel(
                    node, {name: wide if name in chosen else dtype for name, dtype in types.items()}, target
                ):
                    return chosen, narrow, wide
    return None


def _widen(
    graph: ir.Graph, node: ir.Node, opset: int, names: frozenset[str], narrow: ir.DataType, wide: ir.DataType
) -> None:
    """Casts the inputs of some type variables to the wide type, and the outputs back to the narrow one."""
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
        # The cast replaces the value for its consumers and in the graph's outputs, and gets its name.
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
