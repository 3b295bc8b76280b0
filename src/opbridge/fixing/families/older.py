"""An operator in other operators: those that it is lowered to at an older opset, or that ONNX defines it by."""

from __future__ import annotations

from opbridge.conversion.older import in_older_operators
from opbridge.fixing.site import Site, repair


@repair(
    "missing-operator",
    "no-kernel",
    "not-in-onnx",
    "unsupported-revision",
    "unsupported-argument",
    "unsupported-attribute",
    "unsupported-rank",
)
def in_other_operators(site: Site) -> str:
    """Others are put in its place, in the forms of the model's opset."""
    operator = site.node.op_type
    made = in_older_operators(site.node, site.opset, site.around.types, site.around.name)
    return f"wrote {operator} with {', '.join(made)}"
