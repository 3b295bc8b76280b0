"""Rows that a mask leaves nothing of, and indices that are smaller than the data."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair
from opbridge.rules.of_sizes import masked_maximum, smaller_axes


@repair("masked-rows", operators=["Equal"])
def all_are_lowest(site: Site) -> str:
    """The maximum is -inf where all elements are: each is compared, and the smallest truth value is taken."""
    step, node = site.step(), site.node
    maximum = masked_maximum(node, site.looked)
    if maximum is None:
        raise Refused("in another form")
    lowest = node.inputs[1] if node.inputs[0] in maximum.outputs else node.inputs[0]
    found = step.emit("Cast", step.emit("Equal", maximum.inputs[0], lowest), to=int(ir.DataType.INT32))
    kept = {name: each.value for name, each in maximum.attributes.items()}
    smallest = step.emit("ReduceMin", found, *maximum.inputs[1:], **kept)
    site.put(step, step.emit("Cast", smallest, to=int(ir.DataType.BOOL)))
    return "replaced the comparison of the maximum by comparisons of all elements"


@repair("smaller-indices", operators=["GatherElements"])
def narrowed(site: Site) -> str:
    """The data is cut to the sizes that the indices have, along the axes other than that of the indices."""
    step, node = site.step(), site.node
    data, indices = node.inputs[:2]
    axes = smaller_axes(node, site.looked)
    sizes = step.shape(indices)
    if data is None or sizes is None or not axes:
        raise Refused("of unknown shapes")
    ends = [size for size in (sizes[axis] for axis in axes) if isinstance(size, int)]
    if step.to < 11 or len(ends) < len(axes):
        raise Refused("of unknown shapes")
    cut = step.emit("Slice", data, [0] * len(axes), ends, axes)
    site.put(step, step.emit("GatherElements", cut, indices, axis=step.get("axis", 0)))
    return "sliced the data to the sizes of the indices"
