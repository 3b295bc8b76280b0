"""The picture of an ONNX model, and the ONNX nodes of the picture of a capture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir

from opbridge.base.sources import innermost
from opbridge.onnx.subgraphs import operator_name
from opbridge.reports.picture import Operator, Picture

__all__ = ["NodesByCall", "line_of", "module_of", "picture_of_model", "type_text"]

_LONGEST = 120
"""The longest text of an attribute that is shown."""


def picture_of_model(model: ir.Model, states: Mapping[str, str] | None = None) -> Picture:
    """The picture of a model.

    1. Where opbridge exported it, the nodes of one operator are one box, in the module that calls it.
    2. In any other file a node is a box. Its module is what the exporter noted, or is read from its name.

    Args:
        model: The model, whoever made it.
        states: What nodes are coloured by, by their name or that of their first output.
    """
    picture = Picture()
    nodes = _Nodes(picture)
    weights = set(model.graph.initializers.values())
    picture.inputs = [nodes.value(each) for each in model.graph.inputs if each not in weights]
    _walk(model.graph, picture, nodes, states or {}, -1, "")
    picture.outputs = [nodes.value(each) for each in model.graph.outputs]
    return picture


def _walk(graph: Any, picture: Picture, nodes: _Nodes, states: Mapping[str, str], inside: int, body: str) -> None:
    calls: dict[tuple[str, ...], int] = {}
    made: dict[str, int] = {}
    for node in graph:
        metadata = node.metadata_props
        key = _origin(node)
        made_for = metadata.get("opbridge.node", "")
        number = calls.get(key, made.get(made_for, -1)) if key[0] else -1
        if number < 0:
            number = len(picture.operators)
            module = module_of(node.name or "", node.metadata_props)
            found = Operator(_name_of(node), key[0] or _type_of(node), picture.module(module))
            found.frames = picture.code.written(key[2])
            found.inside, found.body = inside, body
            picture.operators.append(found)
            calls[key] = number
        if made_for:  # its last node, unless a repair wrote several: what follows with the same key is another call
            calls.pop(key, None)
            made[made_for] = number
        found = picture.operators[number]
        _add(node, found, nodes)
        state = states.get(_name_of(node), "")
        if state and found.state != "error":
            found.state = state
        for name, subgraph in _bodies(node):
            _walk(subgraph, picture, nodes, states, number, name)


def _add(node: ir.Node, to: Operator, nodes: _Nodes) -> None:
    """Makes a node a part of a box."""
    to.nodes.append(nodes.add(node))
    for each in node.inputs:
        if each is not None:
            if each.is_initializer() or (each.producer() is None and each.const_value is not None):
                to.weights.append([each.name or "", type_text(each)])
                continue
            value = nodes.value(each)
            if value not in to.gives and value not in to.reads:
                to.reads.append(value)
    to.gives += [nodes.value(each) for each in node.outputs if each.name]
    for _, body in _bodies(node):
        given = {nodes.value(each) for each in body.outputs}
        to.reads += [each for each in given if each not in to.reads]


class _Nodes:
    """The nodes and values of a file, as a picture has them."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def value(self, value: ir.Value) -> int:
        return self._picture.value(("onnx", id(value)), value.name or "", type_text(value))

    def add(self, node: ir.Node) -> int:
        attributes = ", ".join(f"{each.name}={_attribute(each)}" for each in node.attributes.values())
        reads = [
            -1 if each is None else (each.name or "") if each.is_initializer() else self.value(each)
            for each in node.inputs
        ]
        row: list[Any] = [node.op_type, node.domain, node.name or "", reads]
        return self._picture.node([*row, [self.value(each) for each in node.outputs], attributes])


class NodesByCall:
    """The ONNX nodes of a model by the node of the captured graph that they were built for.

    Args:
        model: The model, which opbridge built.
        picture: What they become a part of.
    """

    def __init__(self, model: ir.Model, picture: Picture) -> None:
        self._nodes = _Nodes(picture)
        self._by_name: dict[str, list[int]] = {}
        self._inside: dict[tuple[str, ...], list[int]] = {}
        waiting: dict[tuple[str, ...], list[int]] = {}
        for node in model.graph:
            for _, body in _bodies(node):
                self._add_body(body)
            key = _origin(node)
            waiting.setdefault(key, []).append(self._nodes.add(node))
            if named := node.metadata_props.get("opbridge.node", "").split():
                built = waiting.pop(key)
                for call in dict.fromkeys(each.partition(":")[0] for each in named):
                    self._by_name.setdefault(call, []).extend(built)

    def _add_body(self, graph: ir.Graph) -> None:
        for node in graph:
            for _, body in _bodies(node):
                self._add_body(body)
            self._inside.setdefault(_origin(node), []).append(self._nodes.add(node))

    def of(self, name: str) -> list[int]:
        """The numbers of the nodes of one call of the model itself, by the name of its node."""
        return self._by_name.get(name, [])

    def inside(self, operator: str, module: str, source: str, calls: int) -> list[int]:
        """The numbers of the nodes of the next call of an operator in the bodies of others.

        These nodes have no names of the captured graph: they are found by the operator and its line. Each of several
        such calls gets as many of them as the others, and where that is not possible the first one gets all.

        Args:
            operator: The operator.
            module: The path of the module that calls it.
            source: The line.
            calls: How many such calls there are in all bodies, this one and those that were asked for before included.
        """
        built = self._inside.get((operator, module, source), [])
        count = len(built) if calls < 1 or len(built) % calls else len(built) // calls
        taken, built[:] = built[:count], built[count:]
        return taken


def _origin(node: ir.Node) -> tuple[str, ...]:
    """Which operator, module and line a node was built for."""
    return tuple(node.metadata_props.get(f"opbridge.{name}", "") for name in ("operator", "module", "source"))


def _bodies(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    for each in node.attributes.values():
        if each.type == ir.AttributeType.GRAPH:
            yield each.name, each.as_graph()
        elif each.type == ir.AttributeType.GRAPHS:
            for number, graph in enumerate(each.as_graphs()):
                yield f"{each.name}[{number}]", graph


def _name_of(node: ir.Node) -> str:
    return node.name or (node.outputs[0].name if node.outputs else "") or node.op_type


def _type_of(node: ir.Node) -> str:
    return operator_name(node.domain, node.op_type)


def module_of(name: str, metadata: Mapping[str, str]) -> str:
    """The path of the module that a node comes from: what the file says, or else what its name begins with.

    Args:
        name: The name of the node.
        metadata: Its metadata.
    """
    if "opbridge.operator" in metadata:
        return metadata.get("opbridge.module", "")
    scopes = metadata.get("pkg.torch.onnx.name_scopes", "")  # of torch.onnx: "['', 'layer1', 'layer1.0', 'add']"
    if scopes.startswith("[") and scopes.count("'") >= 4:
        return scopes.split("'")[-4]
    return ".".join(_scopes(name.strip("/").split("/")[:-1]))


def line_of(metadata: Mapping[str, str]) -> str:
    """The line of the model's code that the metadata of a node names: "net.py:12"; "" where they name none."""
    if "opbridge.source" in metadata:
        return metadata["opbridge.source"]
    frames = innermost(metadata.get("pkg.torch.onnx.stack_trace", ""))
    return str(frames[0]) if frames else ""


def _scopes(parts: list[str]) -> Iterator[str]:
    """The names of modules in the name of a node, where the old exporter repeats them: layer1, layer1.0, conv1."""
    before = "."
    for part in parts:
        yield part.removeprefix(f"{before}.")
        before = part


def type_text(value: ir.Value) -> str:
    """The type of a value: "float32 [batch, 3]"; "" where the file does not say it."""
    dtype = getattr(value.type, "dtype", None)
    name = "" if dtype is None else _dtype_name(dtype)
    if value.shape is None:
        return name
    return f"{name} [{', '.join('?' if each is None else str(each) for each in _sizes(value.shape))}]".strip()


def _dtype_name(dtype: ir.DataType) -> str:
    try:
        return str(dtype.numpy().name)
    except TypeError:
        return str(dtype.name).lower()


def _sizes(shape: ir.Shape) -> Iterator[Any]:
    for each in shape:
        yield each if isinstance(each, int) else each.value


def _attribute(attribute: ir.Attr) -> str:
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return "…"
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        text = str(tensor.numpy().tolist()) if tensor.size <= 16 else f"{tensor.dtype} {list(tensor.shape)}"
    else:
        text = str(attribute.value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
