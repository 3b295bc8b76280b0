"""ScatterND with a reduction, as ScatterElements along one dimension."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair
from opbridge.targets.facts import Attribute


@repair("unsupported-attribute", "missing-operator", "no-kernel", operators=["ScatterND"])
def along_one_dimension(site: Site) -> str:
    """The dimensions that indices choose from are one; so are those of each slice."""
    step = site.step()
    reduction = step.get("reduction", "none")
    if _is_refused(site, str(reduction)):
        return ""
    data, indices, updates = step.data, step.input(1), step.input(2)
    assert indices is not None and updates is not None
    rank, places = step.rank(), step.rank(indices)
    shape = step.shape(indices)
    depth = None if shape is None else shape[-1]
    if not isinstance(depth, int) or not 1 <= depth <= rank:
        raise Refused("of indices with an unknown last dimension")
    sizes = [step.size(data, axis) for axis in range(rank)]
    outer, inner = step.product(sizes[:depth]), step.product(sizes[depth:])
    place: Any = None
    for axis in range(depth):
        part = step.sliced(indices, axis, axis + 1, places - 1)
        wrapped = step.emit("Where", step.emit("Less", part, 0), step.emit("Add", part, _row(sizes[axis])), part)
        place = wrapped if place is None else step.emit("Add", step.emit("Mul", place, _row(sizes[axis])), wrapped)
    column = step.emit("Reshape", place, [-1, 1])
    count = step.size(column, 0)
    spread = step.emit("Expand", column, step.sizes(count, inner))
    flat = step.emit("Reshape", data, step.sizes(outer, inner))
    given = step.emit("Reshape", updates, step.sizes(count, inner))
    settings = {} if reduction == "none" else {"reduction": reduction}
    made = step.emit("ScatterElements", flat, spread, given, axis=0, **settings)
    site.put(step, step.emit("Reshape", made, step.sizes(*sizes)))
    return "replaced ScatterND by ScatterElements"


def _row(size: int | ir.Value) -> Any:
    return [size] if isinstance(size, int) else size


def _is_refused(site: Site, reduction: str) -> bool:
    """Whether a target does not take ScatterElements with the reduction either."""
    name = "ScatterElements"
    if site.is_lacked(name):
        return True
    for target in site.around.targets:
        for each in target.of_kind(Attribute) if site.finding.target in ("", str(target)) else ():
            if name in each.operators and each.attribute == "reduction" and reduction not in each.allowed:
                return True
    return False
