"""Random numbers of a type that a target does not draw."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair

_DRAWING = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


@repair("unsupported-form", operators=_DRAWING)
def in_float32(site: Site) -> str:
    """Numbers of float64 are drawn in float32: they have the same distribution, with 24 bits of each."""
    step, name = site.step(), site.node.op_type
    if step.get("dtype") != ir.DataType.DOUBLE:
        raise Refused("of this form")
    settings = {each: attribute.value for each, attribute in site.node.attributes.items()}
    drawn = step.emit(name, *site.node.inputs, **{**settings, "dtype": int(ir.DataType.FLOAT)})
    site.put(step, step.cast(drawn, ir.DataType.DOUBLE))
    return f"drew the numbers of {name} in float32"
