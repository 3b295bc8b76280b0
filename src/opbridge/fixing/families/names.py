"""Names that stand twice, initializers that nothing reads, inputs that are outputs."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fixing.site import Site, repair
from opbridge.rules.looking import bodies


@repair("unused-initializer")
def remove_unused(site: Site) -> str:
    """Those that nothing reads are removed."""
    stored = site.model.graph.initializers
    unused = [
        name
        for name, value in stored.items()
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input()
    ]
    for name in unused:
        stored.pop(name)
    return f"removed {len(unused)} initializer{'s' * (len(unused) != 1)} that nothing reads" if unused else ""


@repair("duplicate-names", "branch-names")
def rename(site: Site) -> str:
    """Names are made unique in the whole model; its inputs and outputs keep theirs."""
    looked = site.looked
    taken: set[str] = set()
    renamed = 0
    for each in looked.nodes:
        if each.name and each.name in taken:
            each.name = _free(each.name, taken)
            renamed += 1
        taken.add(each.name or "")
    values: set[str] = {value.name or "" for value in (*looked.model.graph.inputs, *looked.model.graph.outputs)}
    for each in looked.nodes:
        for body in bodies(each):
            for inner in body:
                for value in inner.outputs:
                    if value.name and value.name in values:
                        value.name = _free(value.name, values)
                        renamed += 1
                    values.add(value.name or "")
        values.update(value.name or "" for value in each.outputs)
    return f"gave {renamed} names that were taken another number" if renamed else ""


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


@repair("input-is-output")
def copy_inputs(site: Site) -> str:
    """An Identity stands between an input, or an initializer, and an output."""
    graph = site.model.graph
    inputs = set(graph.inputs)
    copied = 0
    for at, value in enumerate(graph.outputs):
        if value not in inputs and not value.is_initializer():
            continue
        # The name of an input is how the model is called, so that the output gets another one.
        name = value.name if value.is_initializer() else site.around.name(f"{value.name}_output")
        made = ir.node("Identity", [value])
        made.name, made.outputs[0].name = site.around.name(f"{value.name}_copy"), name
        made.outputs[0].type, made.outputs[0].shape = value.type, value.shape
        if value.is_initializer():
            stored = graph.initializers.pop(value.name or "")
            stored.name = site.around.name(f"{name}_stored")
            graph.initializers[stored.name] = stored
        graph.append(made)
        graph.outputs[at] = made.outputs[0]
        copied += 1
    return f"put an Identity before {copied} output{'s' * (copied != 1)}" if copied else ""
