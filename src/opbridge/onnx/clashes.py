"""Names that a file gives to several values, where ONNX has each name once: the later ones are renamed.

A file is read from the top down, so that a node reads the last value of a name that stands above it.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

__all__ = ["rename"]

_DEEPEST = 64
_FEW = 16
"""After so many numbers that are taken, the next one is beyond all of them."""


def rename(model: onnx.ModelProto) -> list[str]:
    """Gives values whose names are taken names of their own, in place.

    Args:
        model: The model. Outputs of it keep their names: the value before gives way.

    Returns:
        The names that several values had.
    """
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    taken.update(each.name for each in (*model.graph.input, *model.graph.output, *model.graph.initializer))
    found: list[str] = []
    _rename_in(model.graph, {}, taken, found, 0)
    return found


def _rename_in(graph: onnx.GraphProto, outer: dict[str, str], taken: set[str], found: list[str], depth: int) -> None:
    """Renames in a graph.

    Args:
        graph: The graph.
        outer: The names that values of the graphs around it have now.
        taken: All names.
        found: Is given the names that several values had.
        depth: How many graphs are around it.
    """
    if depth > _DEEPEST:
        return
    given = {each.name for each in (*graph.input, *graph.initializer)}
    now = {name: of_outer for name, of_outer in outer.items() if name not in given}
    for node in graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = now.get(name, name)
        for attribute in node.attribute:
            for body in _bodies(attribute):
                _rename_in(body, now, taken, found, depth + 1)
        for at, name in enumerate(node.output):
            if name and name in given:
                new = _free(name, taken)
                taken.add(new)
                node.output[at] = now[name] = new
                found.append(name)
            elif name:
                now.pop(name, None)
                given.add(name)
    last = {each.name: now[each.name] for each in graph.output if each.name in now and each.name in given}
    if last and depth == 0:
        _keep_outputs(graph, last)
    elif last:
        for each in graph.output:
            each.name = last.get(each.name, each.name)


def _keep_outputs(graph: onnx.GraphProto, last: dict[str, str]) -> None:
    """Copies the last values of the graph's outputs to values of other names, which the outputs then have.

    The name of an output that an input or an earlier value has cannot be given again, so that it gives way.
    """
    inputs = {each.name for each in (*graph.input, *graph.initializer)}
    swapped = {name: new for name, new in last.items() if name not in inputs}
    back = {**swapped, **{new: name for name, new in swapped.items()}}
    for node in graph.node:
        _swap(node, back, 0)
    for each in graph.output:
        if each.name in last and each.name not in swapped:
            each.name = last[each.name]


def _swap(node: onnx.NodeProto, names: dict[str, str], depth: int) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    if depth < _DEEPEST:
        for attribute in node.attribute:
            for body in _bodies(attribute):
                for each in body.node:
                    _swap(each, names, depth + 1)


def _bodies(attribute: onnx.AttributeProto) -> Sequence[onnx.GraphProto]:
    return [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number = number + 1 if number < _FEW else max(number, len(taken)) + 1
    return f"{name}_{number}"
