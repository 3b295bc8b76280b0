"""What a runtime's optimiser makes of a model, and does wrong."""

from __future__ import annotations

from opbridge.fixing.site import Refused, Site, repair
from opbridge.onnx.transposed_products import keep_operands_apart, operands_read_through_a_cast
from opbridge.rules.of_fusions import kept_factor, removed_factor, types_cast_at


@repair("reciprocal-factor")
def without_copies(site: Site) -> str:
    """The product reads what the nodes without effect copy."""
    at = removed_factor(site.node, site.looked)
    value = None if at is None else site.node.inputs[at]
    maker = None if value is None else value.producer()
    if at is None or value is None or maker is None:
        raise Refused("in another form")
    site.node.replace_input_with(at, kept_factor(value))
    return f"removed {maker.op_type} before {site.node.op_type}"


@repair("transposed-cast")
def cast_before_transpose(site: Site) -> str:
    """A Cast between a Transpose and a MatMul goes before the Transpose; where ONNX Runtime casts, the two are kept
    apart."""
    types = types_cast_at(site.node, site.looked)
    if not operands_read_through_a_cast(site.node, types):
        raise Refused("in another form")
    keep_operands_apart(site.node, types)
    return "moved a Cast or a Transpose at MatMul"
