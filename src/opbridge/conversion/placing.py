"""Nodes that were built in the place of others."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from opbridge.conversion.step import Step

__all__ = ["detach", "replace"]


def replace(step: Step, results: Sequence[ir.Value | None]) -> None:
    """Puts the nodes that were built in the place of a node; their results get the names of its outputs."""
    node = step.node
    graph = node.graph
    assert graph is not None
    made = {value for each, _ in step.new for value in each.outputs}
    outputs = list(node.outputs)[: len(results)]
    taken: list[ir.Value | None] = []
    for value in results:
        if value is not None and (value not in made or value in taken):
            value = step.emit("Identity", value)
        taken.append(value)
    graph.insert_before(node, [each for each, _ in step.new])
    for old, new in zip(outputs, taken, strict=True):
        if new is None:
            continue
        type_ = step.types.of(old)
        if type_ is not None:
            step.types.set(new, type_)
        new.type, new.shape = old.type, old.shape
        new.metadata_props.update(old.metadata_props)
        new.meta.update(old.meta)
        old_name = old.name
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        old.name = None
        if old_name:
            new.name = old_name
    graph.remove(node, safe=False)
    detach(node)


def detach(node: ir.Node) -> None:
    """Takes a node that was removed from among the users of its inputs."""
    for at in range(len(node.inputs)):
        node.replace_input_with(at, None)
