"""Convolutions over one dimension, where a target takes those over two only."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair
from opbridge.targets.facts import Form

_OF_EACH = {"strides": [1], "dilations": [1], "kernel_shape": [1], "output_padding": [0], "output_shape": [1]}
"""The attributes with a number for each dimension, and what they are along the new one."""


@repair("unsupported-form", "unsupported-rank", operators=["Conv", "ConvTranspose"])
def over_two_dimensions(site: Site) -> str:
    """The data and the weights get a dimension of 1 before the last one, and the result loses it."""
    step = site.step()
    if step.rank() != 3:
        raise Refused("of more than one dimension")
    if site.finding.rule == "unsupported-form" and not any(_is_of_lines(each) for each in site.facts(Form)):
        raise Refused("in this form")
    weights = step.input(1)
    if weights is None:
        raise Refused("without weights")
    attributes: dict[str, Any] = {name: each.value for name, each in site.node.attributes.items()}
    for name, new in _OF_EACH.items():
        if name in attributes:
            attributes[name] = [*new, *attributes[name]]
    if "pads" in attributes:
        begin, end = attributes["pads"]
        attributes["pads"] = [0, begin, 0, end]
    made = step.emit(site.node.op_type, _raised(step, step.data), _raised(step, weights), step.input(2), **attributes)
    site.put(step, step.squeezed(made, [2]))
    return f"replaced {site.node.op_type} over one dimension by one over two"


def _is_of_lines(fact: Form) -> bool:
    return "X has rank 3" in fact.form


def _raised(step: Step, value: ir.Value) -> ir.Value:
    stored = step.types.constant(value)
    if stored is None:
        return step.unsqueezed(value, [2])
    return step.number(stored[:, :, None, :], step.dtype(value))
