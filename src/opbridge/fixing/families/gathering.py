"""Gather of one element, and Pad in other modes than constant, by Gather of a list."""

from __future__ import annotations

import numpy as np

from opbridge.fixing.site import Refused, Site, repair


@repair("unsupported-rank", operators=["Gather"])
def of_a_list(site: Site) -> str:
    """The scalar index is a list of one, and the result loses that dimension."""
    step = site.step()
    places = step.input(1)
    if places is None or step.shape(places) != []:
        raise Refused("of indices that are no scalar")
    axis = step.get("axis", 0) % step.rank()
    known = step.types.constant(places)
    listed = step.number(known.reshape(1), step.dtype(places)) if known is not None else step.unsqueezed(places, [0])
    site.put(step, step.squeezed(step.emit("Gather", step.data, listed, axis=axis), [axis]))
    return "replaced the scalar index of Gather by a list"


@repair("unsupported-attribute", operators=["Pad"])
def of_places(site: Site) -> str:
    """Each element of the result is gathered from its place, along one dimension after the other."""
    step = site.step()
    mode, shape, rank = step.get("mode", "constant"), step.shape(step.data), step.rank()
    if mode not in ("reflect", "edge", "wrap") or site.is_lacked("Gather"):
        raise Refused(f"with mode={mode}")
    pads = step.known(1, "pads") if step.to >= 11 else step.integers("pads")
    axes = step.known(3, "axes") if step.input(3) is not None else list(range(rank))
    if not pads or axes is None or min(pads) < 0:
        raise Refused("with pads that are computed or negative")
    made = step.data
    for axis, before, behind in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        size = shape[axis] if shape is not None else None
        if not before and not behind:
            continue
        if not isinstance(size, int) or not size or (mode == "reflect" and max(before, behind) >= size):
            raise Refused("of a dynamic size, or by more than the size")
        places = np.pad(np.arange(size), (before, behind), mode)
        made = step.emit("Gather", made, step.number(places), axis=axis % rank)
    site.put(step, made if made is not step.data else step.emit("Identity", made))
    return f"replaced Pad with mode={mode} by Gather"
