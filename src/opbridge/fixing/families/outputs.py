"""Recurrent operators that leave out outputs, where a target computes them with all of them."""

from __future__ import annotations

from opbridge.fixing.site import Refused, Site, repair
from opbridge.targets.facts import Form

_COUNTS = {"GRU": 2, "LSTM": 3, "RNN": 2}


@repair("unsupported-form", operators=_COUNTS)
def with_all_outputs(site: Site) -> str:
    """The outputs that are left out get names, and nothing reads them."""
    step, operator = site.step(), site.node.op_type
    if not any(condition.endswith(" has no name") for fact in site.facts(Form) for condition in fact.form):
        raise Refused("in this form")
    if len(site.node.outputs) == _COUNTS[operator] and all(each.name for each in site.node.outputs):
        raise Refused("with all outputs")
    attributes = {name: each.value for name, each in site.node.attributes.items()}
    made = step.emit(operator, *site.node.inputs, outputs=_COUNTS[operator], **attributes)
    site.put(step, *(value if old.name else None for value, old in zip(made, site.node.outputs, strict=False)))
    return f"added the missing outputs of {operator}"
