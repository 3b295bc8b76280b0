"""Wider types for nodes that a runtime has no kernels for.

Node by node, in this order:
    1. A node that the runtime has a kernel for, or that it casts itself, stays as it is.
    2. A node without a kernel for its types computes in the next wider type that has one, and its results are cast
       back. The same holds for types that its schema allows in a later opset only. A wider type can represent every
       value of the narrower one, so that the cast is exact.
    3. One whose narrower type is left to somebody else stays as it is, if its schema allows that type.
    4. A node that has no kernel for wider types either is reported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import onnx_ir as ir

from opbridge.onnx import opsets

__all__ = ["INTEGERS", "Kernels", "Widened", "widen"]

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

INTEGERS = frozenset(_WIDER) - {_T.FLOAT16, _T.BFLOAT16}
"""The integers that are widened, and booleans."""


class Lacks(Protocol):
    """Whether a runtime has no kernel for a standard operator with given types."""

    def __call__(self, op_type: str, opset: int, types: dict[str, str], /) -> bool:
        """Of an operator, at an opset, with types by type variable of the schema, as in "tensor(float)"."""


@dataclass(frozen=True)
class Kernels:
    """The kernels of a runtime.

    Attributes:
        label: The runtime and its version, for messages.
        opset: The opset of the model.
        newest: The newest opset of which the runtime has all kernels that it has for older ones.
        lacks: Whether it has no kernel for a standard operator with given types.
        named_casts: The types, by their names in schemas, that it casts by itself around a node that has an input of
            such a type and no kernel for it, each with the type that it casts to.
    """

    label: str
    opset: int
    newest: int
    lacks: Lacks
    named_casts: Mapping[str, str]

    @property
    def casts(self) -> dict[ir.DataType, ir.DataType]:
        """The types that the runtime casts by itself, each with the type that it casts to."""
        return {_named(narrow): _named(wide) for narrow, wide in self.named_casts.items()}


@dataclass
class Widened:
    """What `widen` did.

    Attributes:
        problems: The operators that the runtime cannot run, as in the metadata "opbridge.operator" of nodes, with the
            reasons.
        nodes: How many nodes were widened from each type.
    """

    problems: dict[str, str] = field(default_factory=dict)
    nodes: dict[ir.DataType, int] = field(default_factory=dict)


def widen(
    model: ir.Model,
    kernels: Kernels,
    *,
    left: Callable[[ir.Node], Collection[ir.DataType]] = lambda node: (),
) -> Widened:
    """Casts around the nodes of a model that a runtime has no kernels for, in place.

    Args:
        model: The model. The types of all its values are known; nodes with values of unknown type stay as they are.
        kernels: The kernels of the runtime.
        left: The types of a node that are left to another runtime, which is to run the model in the end. It is asked of
            the model as it was given, before any node of it is widened.
    """
    found, casts = Widened(), kernels.casts
    for graph in [model.graph, *model.graph.subgraphs()]:
        for node in list(graph):
            if node.domain not in ("", "ai.onnx") or node.op_type == "Constant":  # evaluated when the model is loaded
                continue
            types = _types(node, kernels.opset)
            if types is None or not _lacks_kernel(node, types, kernels) or _is_cast(node, types, casts, kernels):
                continue
            wider = _wider(node, types, kernels)
            if wider is not None and wider[1] in left(node) and _is_valid(node, types, kernels):
                continue
            if wider is None:
                said = ", ".join(sorted({dtype.name.lower() for dtype in types.values()}))
                operator = node.metadata_props.get("opbridge.operator", node.op_type)
                found.problems[operator] = f"{kernels.label} has no kernel for {node.op_type} of {said}"
                found.problems[operator] += _newer_opset_hint(node, types, kernels)
            else:
                _widen(graph, node, kernels.opset, *wider)
                found.nodes[wider[1]] = found.nodes.get(wider[1], 0) + 1
    return found


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


def _lacks_kernel(node: ir.Node, types: Mapping[str, ir.DataType], kernels: Kernels) -> bool:
    """Whether the schema or the runtime's kernels do not allow these types."""
    if not _is_valid(node, types, kernels):
        return True
    spelled = {name: _spelled(dtype) for name, dtype in types.items()}
    return kernels.lacks(node.op_type, kernels.opset, spelled) and not _is_function_only(node.op_type, kernels)


def _is_valid(node: ir.Node, types: Mapping[str, ir.DataType], kernels: Kernels) -> bool:
    """Whether the schema allows these types."""
    return opsets.allows(node.op_type, kernels.opset, {name: _spelled(dtype) for name, dtype in types.items()})


def _is_cast(
    node: ir.Node, types: Mapping[str, ir.DataType], casts: Mapping[ir.DataType, ir.DataType], kernels: Kernels
) -> bool:
    """Whether the runtime casts the inputs of a node to types that it has a kernel for, and the results back.

    That needs an input of such a type, and a node that is valid as it is.
    """
    if not casts.keys() & {value.dtype for value in node.inputs if value is not None}:
        return False
    wide = {name: casts.get(dtype, dtype) for name, dtype in types.items()}
    return _is_valid(node, types, kernels) and not _lacks_kernel(node, wide, kernels)


def _newer_opset_hint(node: ir.Node, types: dict[str, ir.DataType], kernels: Kernels) -> str:
    """The end of a sentence that names the next opset in which the runtime runs the operator with these types."""
    for opset in range(kernels.opset + 1, kernels.newest + 1):
        if opsets.native_schema(node.op_type, opset) is not None and not _lacks_kernel(
            node, types, dataclasses.replace(kernels, opset=opset)
        ):
            return f" at opset {kernels.opset}. Export with opset_version={opset} or newer."
    return "."


def _is_function_only(op_type: str, kernels: Kernels) -> bool:
    """Whether the runtime runs an operator only by the function of other operators that ONNX defines it as."""
    return opsets.is_function(op_type, kernels.opset) and kernels.lacks(op_type, kernels.opset, {})


def _spelled(dtype: ir.DataType) -> str:
    return f"tensor({dtype.name.lower()})"


def _named(spelled: str) -> ir.DataType:
    return ir.DataType[spelled.removeprefix("tensor(").removesuffix(")").upper()]


def _wider(
    node: ir.Node, types: dict[str, ir.DataType], kernels: Kernels
) -> tuple[frozenset[str], ir.DataType, ir.DataType] | None:
    """The type variables to widen, from which type, and to which."""
    schema = opsets.schema_for(node.op_type, kernels.opset, written_for=kernels.opset)
    # A type variable that no input has is determined by an attribute.
    input_variables = {schema.type_variable(position) for position in range(len(node.inputs))}
    for narrow in dict.fromkeys(types.values()):
        for wide in _WIDER.get(narrow, ()):
            casts = ({"T1": _spelled(narrow), "T2": _spelled(wide)}, {"T1": _spelled(wide), "T2": _spelled(narrow)})
            if not all(opsets.allows("Cast", kernels.opset, cast) for cast in casts):
                continue
            # The schema may allow bool only, as for the condition of Where.
            names = frozenset(
                name
                for name, dtype in types.items()
                if dtype == narrow
                and name in input_variables
                and opsets.allows(node.op_type, kernels.opset, {name: _spelled(wide)})
            )
            for chosen in (names, *(frozenset({name}) for name in sorted(names) if len(names) > 1)):
                if chosen and not _lacks_kernel(
                    node, {name: wide if name in chosen else dtype for name, dtype in types.items()}, kernels
                ):
                    return chosen, narrow, wide
    return None


def _widen(
    graph: ir.Graph, node: ir.Node, opset: int, names: frozenset[str], narrow: ir.DataType, wide: ir.DataType
) -> None:
    """Casts the inputs of some type variables to the wide type, and the outputs back to the narrow one."""
    base = node.name or node.outputs[0].name  # of a file of another exporter, nodes may have no names
    schema = opsets.schema_for(node.op_type, opset, written_for=opset)
    for position, value in enumerate(node.inputs):
        if value is not None and schema.type_variable(position) in names:
            cast = _cast(node, value, wide, f"{base}/in{position}")
            graph.insert_before(node, cast)
            node.replace_input_with(position, cast.outputs[0])
    for position, value in enumerate(node.outputs):
        if schema.outputs[min(position, len(schema.outputs) - 1)].type_constraint.name not in names:
            continue
        cast = _cast(node, value, narrow, f"{base}/out{position}")
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
