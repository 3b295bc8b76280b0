"""The main graph of a model as a graph of values, and parts of it as models of their own.

Works on protobuf's messages, so that a part has all that the file says of its nodes, and weights beside the file are
never read.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import onnx

from opbridge.errors import ModelFileError

__all__ = ["GraphIndex", "bodies", "described", "inputs_of", "operator_name", "part"]


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node holds."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


_IR_OF_INITIALIZERS = 4


class GraphIndex:
    """Which node of the main graph of a model gives and reads which value.

    Args:
        model: The model. Its messages are shared, and have to stay as they are.
        label: The name of the model in messages.

    Attributes:
        model: The model.
        nodes: The nodes, each after those whose outputs it reads.
        makers: By the name of a value, the position in `nodes` of the node that gives it.
        reads: For each node, the names of the values that it reads, those that its bodies capture among them.
        constants: The names of the initializers.
        inputs: The names of the inputs that are no initializers.
        outputs: The names of the outputs.
        types: What the file says of the types of values, by their names.

    Raises:
        ModelFileError: The graph has a cycle, two values have one name, or a value that is read is never given.
    """

    def __init__(self, model: onnx.ModelProto, label: str) -> None:
        graph = model.graph
        self.model, self.label = model, label
        self.constants = {each.name: each for each in graph.initializer}
        self._sparse = {each.values.name: each for each in graph.sparse_initializer}
        self.constants.update({name: each.values for name, each in self._sparse.items()})
        self.inputs = [each.name for each in graph.input if each.name not in self.constants]
        self.outputs = [each.name for each in graph.output]
        self.types = {each.name: each for each in (*graph.value_info, *graph.output, *graph.input)}
        self._given = {*self.inputs, *self.constants}
        self._sort(list(graph.node))

    def _sort(self, nodes: list[onnx.NodeProto]) -> None:
        makers: dict[str, int] = {}
        for at, node in enumerate(nodes):
            for name in filter(None, node.output):
                if name in makers or name in self._given:
                    raise ModelFileError(f"{self.label} is not a valid model: two values have the name '{name}'.")
                makers[name] = at
        reads = [_reads(node) for node in nodes]
        waits = [0] * len(nodes)
        readers: dict[int, list[int]] = {}
        for at, names in enumerate(reads):
            for name in names:
                if name in self._given:
                    continue
                if name not in makers:
                    raise ModelFileError(
                        f"{self.label} is not a valid model: {described(nodes[at])} reads '{name}', which no node "
                        "gives. Export it again."
                    )
                waits[at] += 1
                readers.setdefault(makers[name], []).append(at)
        for name in self.outputs:
            if name not in makers and name not in self._given:
                raise ModelFileError(f"{self.label} is not a valid model: no node gives its output '{name}'.")
        ready = [at for at, count in enumerate(waits) if not count]
        order = []
        while ready:  # the order of the file, where that is one
            at = heapq.heappop(ready)
            order.append(at)
            for reader in readers.get(at, ()):
                waits[reader] -= 1
                if not waits[reader]:
                    heapq.heappush(ready, reader)
        if len(order) < len(nodes):
            left = next(at for at, count in enumerate(waits) if count)
            raise ModelFileError(
                f"{self.label} is not a valid model: its graph has a cycle, of which {described(nodes[left])} is "
                "one node or reads its values. Export it again."
            )
        self.nodes = [nodes[at] for at in order]
        self.reads = [reads[at] for at in order]
        self.makers = {name: at for at, node in enumerate(self.nodes) for name in node.output if name}

    def is_given(self, name: str) -> bool:
        """Whether a value is an input of the model or an initializer."""
        return name in self._given

    def values(self) -> Iterator[str]:
        """The names of all values that nodes give, each after those that it depends on."""
        for node in self.nodes:
            yield from filter(None, node.output)

    def ancestors(self, names: Collection[str], stop: Collection[str] = ()) -> list[int]:
        """The positions of the nodes that values depend on, in order.

        Args:
            names: The names of the values.
            stop: Values whose nodes are not looked at.
        """
        ends = set(stop)
        found: set[int] = set()
        pending = [name for name in names if name not in ends]
        while pending:
            at = self.makers.get(pending.pop())
            if at is not None and at not in found:
                found.add(at)
                pending.extend(name for name in self.reads[at] if name not in ends)
        return sorted(found)

    def sparse(self, name: str) -> onnx.SparseTensorProto | None:
        """The sparse initializer of a name."""
        return self._sparse.get(name)


def described(node: onnx.NodeProto) -> str:
    """A node in messages: "Conv 'conv1'"."""
    return operator_name(node.domain, node.op_type) + (f" '{node.name}'" if node.name else "")


def operator_name(domain: str, op_type: str) -> str:
    """An operator as it is shown: "Conv", "com.microsoft::FusedMatMul"."""
    return op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}"


def _reads(node: onnx.NodeProto) -> tuple[str, ...]:
    names = dict.fromkeys(filter(None, node.input))
    for body in bodies(node):
        names.update(dict.fromkeys(_captured(body)))
    return tuple(names)


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of the values that a body takes from the graphs around it."""
    own = {each.name for each in (*graph.input, *graph.initializer)}
    own.update(each.values.name for each in graph.sparse_initializer)
    for node in graph.node:
        own.update(node.output)
    for node in graph.node:
        for name in _reads(node):
            if name not in own:
                yield name
    for each in graph.output:
        if each.name not in own:
            yield each.name


def part(
    index: GraphIndex,
    outputs: Sequence[str],
    inputs: Sequence[str] = (),
    *,
    types: Mapping[str, onnx.ValueInfoProto] | None = None,
    nodes: Collection[int] | None = None,
    keep: Callable[[str], bool] = lambda name: True,
) -> onnx.ModelProto:
    """The part of a model that computes some values from others, as a model.

    It has the opsets, the metadata and, of the functions, those that its nodes call. Inputs of the model that it
    depends on besides are inputs of it too.

    Args:
        index: The model.
        outputs: The names of the values that are its outputs.
        inputs: The names of the values that are given to it; also initializers may be.
        types: What is known of the types of values, in the place of what the file says.
        nodes: The positions of its nodes; None: those that the outputs depend on.
        keep: Whether what the file says of the type of an inner value is kept.
    """
    chosen = index.ancestors(outputs, inputs) if nodes is None else sorted(nodes)
    made = {name for at in chosen for name in index.nodes[at].output}
    read = dict.fromkeys([name for at in chosen for name in index.reads[at]] + list(outputs))
    given = [name for name in inputs if name in read]
    given += [name for name in read if name in index.inputs and name not in given]
    missing = [name for name in read if name not in made and name not in index.constants and name not in given]
    given += missing
    model = onnx.ModelProto()
    for field in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        if index.model.HasField(field):
            setattr(model, field, getattr(index.model, field))
    model.opset_import.extend(index.model.opset_import)
    model.metadata_props.extend(index.model.metadata_props)
    graph, source = model.graph, index.model.graph
    graph.name, graph.doc_string = source.name or "graph", source.doc_string
    graph.metadata_props.extend(source.metadata_props)
    graph.node.extend(index.nodes[at] for at in chosen)
    known = types or {}

    def typed(name: str) -> onnx.ValueInfoProto:
        return known.get(name) or index.types.get(name) or onnx.ValueInfoProto(name=name)

    graph.input.extend(typed(name) for name in given)
    graph.output.extend(typed(name) for name in outputs)
    for name in read:
        if name in index.constants and name not in given and name not in made:
            if (sparse := index.sparse(name)) is not None:
                graph.sparse_initializer.append(sparse)
            else:
                graph.initializer.append(index.constants[name])
    if index.model.ir_version < _IR_OF_INITIALIZERS:  # initializers are inputs too
        stored = {each.name for each in graph.initializer}
        graph.input.extend(each for each in source.input if each.name in stored)
    shown = {*given, *outputs}
    graph.value_info.extend(each for each in source.value_info if each.name in made - shown and keep(each.name))
    quantized = {each.tensor_name: each for each in source.quantization_annotation}
    graph.quantization_annotation.extend(each for name, each in quantized.items() if name in made or name in read)
    model.functions.extend(_called(index.model, graph.node))
    return model


def inputs_of(model: onnx.ModelProto) -> list[str]:
    """The names of the inputs of a model that have no value in it: in older files, initializers are inputs too."""
    stored = {each.name for each in model.graph.initializer}
    return [each.name for each in model.graph.input if each.name not in stored]


def _called(model: onnx.ModelProto, nodes: Collection[onnx.NodeProto]) -> list[onnx.FunctionProto]:
    """The functions of a model that nodes call, and those that these call."""
    if not model.functions:
        return []
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    found: set[tuple[str, str, str]] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        for body in bodies(node):
            pending.extend(body.node)
        key = (node.domain, node.op_type, node.overload)
        if key in functions and key not in found:
            found.add(key)
            pending.extend(functions[key].node)
    return [each for key, each in functions.items() if key in found]
