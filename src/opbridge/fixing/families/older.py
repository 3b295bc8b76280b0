"""An operator in other operators: those that it is lowered to at an older opset, or that ONNX defines it by."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from opbridge.conversion import schemas
from opbridge.conversion.older import in_older_operators, may_be_older
from opbridge.conversion.widening import HALVES, is_exact
from opbridge.fixing.site import Site, repair
from opbridge.rules.forms import holds
from opbridge.targets.facts import Absent, Attribute, Form

_WITH_BODIES = ("If", "Loop", "Scan", "SequenceMap")
"""Operators that others are defined by, and that are no gain where the target lacks them too."""


@repair(
    *("missing-operator", "no-kernel", "not-in-onnx", "unsupported-revision", "unsupported-rank"),
    *("attention-kernel", "attention-shapes"),
    offered=lambda finding: may_be_older(finding.operator),
)
def in_other_operators(site: Site) -> str:
    """Others are put in its place, in the forms of the model's opset."""
    operator = site.node.op_type
    dtype = next((each.dtype for each in site.node.inputs if each is not None), None)
    if site.finding.rule == "no-kernel" and dtype in HALVES and is_exact(operator, dtype, ir.DataType.FLOAT):
        return ""  # `widths` computes it in float32, and rounds once
    made = in_older_operators(
        site.node, site.opset, site.around.types, site.around.name, unwanted=_lacked_with_bodies(site)
    )
    return f"replaced {operator} by {', '.join(made)}"


def _lacked_with_bodies(site: Site) -> frozenset[str]:
    return frozenset(each for each in _WITH_BODIES if site.is_lacked(each))


@repair("unsupported-attribute")
def without_the_attribute(site: Site) -> str:
    """Others are put in its place, or the operator without the attribute that a newer form of it has."""
    operator = site.node.op_type
    facts = list(site.facts(Attribute))

    def refused(node: ir.Node) -> bool:
        return any(_is_refused(node, each) for each in facts)

    lacked = _lacked_with_bodies(site)
    made = in_older_operators(site.node, site.opset, site.around.types, site.around.name, refused, lacked)
    return f"replaced {operator} by {', '.join(made)}"


def _is_refused(node: ir.Node, fact: Attribute) -> bool:
    given = node.attributes.get(fact.attribute)
    if given is None:
        return False
    values = given.value if isinstance(given.value, (list, tuple)) else [given.value]
    return not fact.allowed or any(each not in fact.allowed for each in values)


@repair("unsupported-form", offered=lambda finding: may_be_older(finding.operator))
def without_the_form(site: Site) -> str:
    """Others are put in its place, or the operator in a form that the target supports."""
    operator = site.node.op_type
    forms = [each.form for each in site.facts(Form)]

    def refused(node: ir.Node) -> bool:
        return any(all(holds(each, node, site.looked) for each in form) for form in forms)

    made = in_older_operators(site.node, site.opset, site.around.types, site.around.name, refused)
    return f"replaced {operator} by {', '.join(made)}"


@repair("unsupported-argument")
def without_the_argument(site: Site) -> str:
    """Outputs that nothing reads are left out; else others are put in its place, or it with fewer inputs or outputs."""
    node = site.node
    unread = [each for each in node.outputs[1:] if each.name and not (each.uses() or each.is_graph_output())]
    refused_outputs = {name for fact in site.facts(Absent) for name in fact.outputs}
    if refused_outputs & _names_of(site, unread):
        names = ", ".join(str(each.name) for each in unread)
        for value in unread:
            value.name = ""
        while not node.outputs[-1].name:
            node.resize_outputs(len(node.outputs) - 1)
        return f"left out {names}, which nothing reads"
    operator, before = node.op_type, (_count(node.inputs), _count(node.outputs))

    def refused(other: ir.Node) -> bool:
        return (_count(other.inputs), _count(other.outputs)) == before

    made = in_older_operators(node, site.opset, site.around.types, site.around.name, refused)
    return f"replaced {operator} by {', '.join(made)}"


def _names_of(site: Site, values: Sequence[ir.Value]) -> set[str]:
    """The names of some outputs in the schema of their operator."""
    schema = schemas.form(site.node.op_type, site.opset)
    declared = [] if schema is None else [each.name for each in schema.outputs]
    pairs = zip(declared, site.node.outputs, strict=False)
    return {name for name, value in pairs if any(value is one for one in values)}


def _count(values: Sequence[ir.Value | None]) -> int:
    return sum(each is not None and bool(each.name) for each in values)
