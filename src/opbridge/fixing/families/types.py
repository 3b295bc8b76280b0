"""Inputs of one operator that differ in type."""

from __future__ import annotations

from collections import deque

import numpy as np
import onnx_ir as ir

from opbridge.fixing.promotion import result_type
from opbridge.fixing.site import Refused, Site, repair
from opbridge.onnx import opsets
from opbridge.rules.looking import bodies, type_name
from opbridge.rules.node_types import mixed_inputs
from opbridge.rules.of_shapes import types_given

__all__ = ["wanted_type"]


def wanted_type(op_type: str, operands: list[tuple[ir.DataType, bool]]) -> ir.DataType | None:
    """The type that the inputs of one type variable are cast to, as PyTorch computes them; None where it has none.

    Args:
        op_type: The operator.
        operands: The type of each input, and whether it is a scalar.
    """
    # What is written into a tensor takes the type of that tensor.
    is_written = "Scatter" in op_type or op_type == "Pad"
    return operands[0][0] if is_written else result_type(operands)


@repair("mixed-types")
def cast_to_one_type(site: Site) -> str:
    """Inputs of one type variable are cast to the type that PyTorch promotes them to, and so are those of the operators
    that follow from it. The inputs and outputs of the model keep their types."""
    types = _unify(site, site.node)
    return f"cast the inputs of {site.node.op_type} to {' and '.join(map(type_name, types))}" if types else ""


def _unify(site: Site, node: ir.Node) -> list[ir.DataType]:
    """Casts the inputs of a node, and returns the types that they have now; none where they differ in none.

    Raises:
        Refused: PyTorch has no such type, or the operator does not support it.
    """
    opset = site.looked.opset_of(node)
    schema = opsets.native_schema(node.op_type, opset)
    site.looked.forget_types(node)
    found = mixed_inputs(node.op_type, opset, site.looked.types_of_inputs(node))
    wanted = []
    for places in found:
        names = " and ".join(sorted({type_name(each) for each in places.values()}))
        scalars = {at: site.looked.shape(node.inputs[at]) == [] for at in places}
        dtype = wanted_type(node.op_type, [(each, scalars[at]) for at, each in places.items()])
        if dtype is None:
            raise Refused(f"of {names}, which PyTorch does not promote")
        assert schema is not None
        if not _is_allowed(node, opset, schema.type_variable(next(iter(places))), dtype):
            raise Refused(f"of {names}, which are {type_name(dtype)} in PyTorch, at opset {opset}")
        wanted.append(dtype)
    for places, dtype in zip(found, wanted, strict=True):
        for at, each in places.items():
            if each != dtype:
                _cast_input(site, node, at, dtype)
    if wanted:
        _retype(site, node)
    return wanted


def _retype(site: Site, start: ir.Node) -> None:
    """Notes the types that follow from those of a node's inputs, with Casts where the model needs the ones before."""
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        site.looked.forget_types(node)
        for value, dtype in zip(node.outputs, types_given(node, site.looked), strict=False):
            before = value.dtype
            if dtype is None or before is None or before == dtype:
                continue
            value.type = ir.TensorType(dtype)
            if value.is_graph_output():
                _cast_output(site, value, before)
            for user, at in list(value.uses()):
                if user in waiting or (user.op_type == "Cast" and user.domain == ""):
                    continue
                if not _follows(site, user, at, dtype):
                    if node in site.looked.said:
                        _cast_input(site, user, at, before)
                elif not _is_unified(site, user):
                    waiting.append(user)


def _is_unified(site: Site, node: ir.Node) -> bool:
    """Casts the inputs of a node that differ in type by now, and says whether there were such."""
    try:
        return bool(_unify(site, node))
    except Refused:  # found at the next look at the model, with the reason
        return True


def _follows(site: Site, node: ir.Node, at: int, dtype: ir.DataType) -> bool:
    """Whether a node may have an input of another type than before."""
    opset = site.looked.opset_of(node)
    schema = opsets.native_schema(node.op_type, opset) if node.domain in ("", "ai.onnx") else None
    if schema is None or not schema.inputs or any(True for _ in bodies(node)):
        return False
    return _is_allowed(node, opset, schema.type_variable(at), dtype)


def _is_allowed(node: ir.Node, opset: int, variable: str, dtype: ir.DataType) -> bool:
    return opsets.allows(node.op_type, opset, {variable: f"tensor({dtype.name.lower()})"})


def _cast_input(site: Site, node: ir.Node, at: int, dtype: ir.DataType) -> None:
    """Puts a Cast before an input of a node."""
    value = node.inputs[at]
    assert value is not None
    step = site.step(node)
    made = step.emit("Cast", value, to=int(dtype))
    made.type, made.shape = ir.TensorType(dtype), value.shape
    site.put_before(step)
    node.replace_input_with(at, made)


def _cast_output(site: Site, value: ir.Value, dtype: ir.DataType) -> None:
    """Puts a Cast between a value and the output of its graph that it is, which keeps its name and its type."""
    node, graph = value.producer(), value.graph
    assert node is not None and graph is not None
    made = ir.node("Cast", [value], attributes={"to": int(dtype)})
    made.name = site.around.name(f"{node.name or value.name}_cast")
    made.metadata_props.update(node.metadata_props)
    cast = made.outputs[0]
    cast.type, cast.shape = ir.TensorType(dtype), value.shape
    graph.insert_after(node, made)
    for at, each in enumerate(graph.outputs):
        if each is value:
            graph.outputs[at] = cast
    name = value.name
    value.name, cast.name = site.around.name(f"{name}_{type_name(value.dtype or dtype)}"), name


@repair("mixed-pow")
def cast_exponent(site: Site) -> str:
    """The exponent is cast to the type of the base, where that holds it."""
    base, exponent = site.node.inputs
    if base is None or exponent is None or base.dtype is None:
        return ""
    known = site.looked.constant(exponent)
    whole = known is not None and known.size and np.all(known == np.trunc(known))
    if not base.dtype.is_floating_point() and not whole:
        return ""
    if base.dtype == ir.DataType.FLOAT16 and known is None:
        return ""
    _cast_input(site, site.node, 1, base.dtype)
    return f"cast the exponent of Pow to {type_name(base.dtype)}"
