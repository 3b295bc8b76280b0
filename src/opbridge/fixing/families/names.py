"""Names that stand twice, functions of the model, initializers that nothing reads, inputs that are outputs."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as passes

from opbridge.conversion.names import Names
from opbridge.fixing.site import Refused, Site, repair
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
    return f"removed {len(unused)} initializer{'s' * (len(unused) != 1)} that are not used" if unused else ""


@repair("local-function")
def inline(site: Site) -> str:
    """The nodes of the model's functions are put in the place of their calls, all at once."""
    functions = site.model.functions
    for each in functions.values():
        for domain, version in each.opset_imports.items():
            if site.model.opset_imports.get(domain, version) != version:
                raise Refused(f"of opset {version}, but the model has opset {site.model.opset_imports[domain]}")
    names = sorted({name for _, name, _ in functions})
    try:
        passes.InlinePass()(site.model)
    except ir.passes.PreconditionError:
        raise Refused("that calls itself") from None
    site.around.name = Names(site.model)
    return f"inlined the calls of {', '.join(names)}"


@repair("duplicate-names", "branch-names")
def rename(site: Site) -> str:
    """Names are made unique in the whole model; its inputs and outputs keep theirs."""
    looked = site.looked
    taken: set[str] = set()
    last: dict[str, int] = {}
    renamed = 0
    for each in looked.nodes:
        if each.name and each.name in taken:
            each.name = _free(each.name, taken, last)
            renamed += 1
        taken.add(each.name or "")
    last = {}
    values: set[str] = {value.name or "" for value in (*looked.model.graph.inputs, *looked.model.graph.outputs)}
    for each in looked.nodes:
        for body in bodies(each):
            for inner in body:
                for value in inner.outputs:
                    if value.name and value.name in values:
                        value.name = _free(value.name, values, last)
                        renamed += 1
                    values.add(value.name or "")
        values.update(value.name or "" for value in each.outputs)
    return f"renamed {renamed} duplicate names" if renamed else ""


def _free(name: str, taken: set[str], last: dict[str, int]) -> str:
    """A name that is not taken, made from one that is.

    Args:
        name: The name.
        taken: All names.
        last: The number that was added last to each name: a file may have one name many thousand times.
    """
    number = last.get(name, 0) + 1
    while f"{name}_{number}" in taken:
        number += 1
    last[name] = number
    return f"{name}_{number}"


@repair("unmade-body-output")
def copy_in_bodies(site: Site) -> str:
    """An Identity stands between an input, or an initializer, of a body and an output of it."""
    copied = 0
    for body in bodies(site.node):
        for at, value in enumerate(body.outputs):
            if value.producer() is None:
                made = ir.node("Identity", [value])
                made.name, made.outputs[0].name = (
                    site.around.name(f"{value.name}_{end}") for end in ("copy", "output")
                )
                made.outputs[0].type, made.outputs[0].shape = value.type, value.shape
                body.append(made)
                body.outputs[at] = made.outputs[0]
                copied += 1
    return f"inserted an Identity before {copied} output{'s' * (copied != 1)} of {site.node.op_type}" if copied else ""


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
    return f"inserted an Identity before {copied} output{'s' * (copied != 1)}" if copied else ""
