"""Inputs of one operator that differ in type."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from opbridge.fixing.site import Site, repair
from opbridge.onnx import opsets
from opbridge.rules.looking import type_name

__all__ = ["cast_input"]


@repair("mixed-types")
def cast_to_one_type(site: Site) -> str:
    """Inputs of one type variable are cast to the type of the first one, or to the widest."""
    node = site.node
    schema = opsets.native_schema(node.op_type, site.opset)
    if schema is None:
        return ""
    changed = []
    for variable in {schema.type_variable(at) for at in range(len(node.inputs)) if schema.homogeneous(at)}:
        places = {
            at: value.dtype
            for at, value in enumerate(node.inputs)
            if value is not None and value.dtype is not None and schema.type_variable(at) == variable
        }
        types = list(places.values())
        if len(set(types)) < 2 or ir.DataType.STRING in types:
            continue
        # What is written into a tensor takes the type of that; of others, the one that holds the most.
        is_written = node.op_type.startswith("Scatter") or node.op_type in ("Where", "Clip", "Pad")
        wanted = types[0] if is_written else max(types, key=_width)
        for at, dtype in places.items():
            if dtype != wanted:
                cast_input(site, at, wanted)
        for value in node.outputs:
            if value.dtype in types and value.dtype != wanted:
                value.type = ir.TensorType(wanted)
        changed.append(type_name(wanted))
    return f"cast the inputs of {node.op_type} to {' and '.join(changed)}" if changed else ""


def _width(dtype: ir.DataType) -> tuple[bool, float]:
    return dtype.is_floating_point(), dtype.itemsize


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
    cast_input(site, 1, base.dtype)
    return f"cast the exponent of Pow to {type_name(base.dtype)}"


def cast_input(site: Site, at: int, dtype: ir.DataType) -> None:
    """Puts a Cast before an input of the node."""
    value = site.node.inputs[at]
    assert value is not None
    step = site.step()
    made = step.emit("Cast", value, to=int(dtype))
    made.type, made.shape = ir.TensorType(dtype), value.shape
    site.put_before(step)
    site.node.replace_input_with(at, made)
