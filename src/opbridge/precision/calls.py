"""The functions of a model, which are inlined to be cast, and put back around the nodes that came from each call.

A function whose calls compute in different types becomes several. A call stays inlined where the nodes of it do not
stand together any more: where something outside reads a result that they read in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.passes import common as passes

from opbridge.precision.types import bodies, graphs

__all__ = ["Call", "inlined", "outlined"]

_CALL = "opbridge.call"

_MOST_CALLS = 10_000
"""Of more calls, nothing is remembered."""


@dataclass(frozen=True)
class Call:
    """A call of a function.

    Attributes:
        function: The function's domain and name.
        name: The name of the node.
        outer: The call whose function has the node; "": the model has it.
        version: The version of the domain.
        depth: How many calls it is in.
    """

    function: tuple[str, str]
    name: str
    outer: str
    version: int
    depth: int


def inlined(model: ir.Model) -> dict[str, Call]:
    """Inlines all functions of a model, in place, and returns the calls, by what its nodes remember of them.

    Args:
        model: The model.
    """
    functions, calls = dict(model.functions), dict[str, Call]()
    versions = model.graph.opset_imports

    def specialise(nodes: Iterator[ir.Node], outer: str, depth: int) -> bool:
        """Gives each call a function of its own, whose nodes remember it; whether that came to an end."""
        for node in list(nodes):
            found = functions.get(node.op_identifier())
            if found is None:
                continue
            if len(calls) == _MOST_CALLS or depth > len(functions):  # the pass reports functions that call themselves
                return False
            key = str(len(calls))
            function = found.domain, found.name
            calls[key] = Call(function, node.name or "", outer, versions.get(found.domain, 1), depth)
            twin = found.clone()
            for each in twin.all_nodes():
                each.metadata_props[_CALL] = key
            node.overload = f"{found.overload}/{key}"
            own = ir.Function(*function, node.overload, graph=twin.graph, attributes=list(twin.attributes.values()))
            model.functions[own.identifier()] = own
            if not specialise(own.all_nodes(), key, depth + 1):
                return False
        return True

    if not specialise(model.graph.all_nodes(), "", 0):
        calls = {}
    passes.InlinePass()(model)
    model.functions.clear()  # those that nothing called, under the names that were theirs
    return calls


def outlined(model: ir.Model, calls: Mapping[str, Call]) -> ir.Model:
    """A copy of a model with the functions whose calls were inlined; the model itself where there are none.

    Args:
        model: The model, whose nodes remember their calls.
        calls: The calls.
    """
    if not calls:
        return model
    made = model.clone()
    outlining = _Outlining(made)
    by_depth = sorted(calls.items(), key=lambda each: -each[1].depth)
    for key, call in by_depth:
        for graph in graphs(made.graph):
            nodes = [node for node in graph if node.metadata_props.get(_CALL) == key]
            if nodes:
                outlining.put_back(graph, nodes, call)
                break
    functions = (each.all_nodes() for each in made.functions.values())
    for node in itertools.chain(made.graph.all_nodes(), *functions):
        node.metadata_props.pop(_CALL, None)
    for graph in graphs(made.graph):
        graph.sort()
    return made


class _Outlining:
    """Puts nodes into functions."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._known: dict[tuple[object, ...], ir.Function] = {}
        self._count = itertools.count()

    def put_back(self, graph: ir.Graph, nodes: list[ir.Node], call: Call) -> None:
        """Puts the nodes of a call into a function, and a call of it in their place."""
        group = _with_between(graph, nodes)
        inside = {inner for node in group for inner in _all(node)}
        made = {value for node in inside for value in node.outputs}
        given = list(dict.fromkeys(value for node in group for value in _read(node) if value not in made))
        results = [
            value
            for node in group
            for value in node.outputs
            if value.is_graph_output() or any(user not in inside for user, _ in value.uses())
        ]
        if not results or _is_apart(graph, group, inside) or _returns_outer(group, given):
            return
        key = (call.function, *_key(group, given, results))
        function = self._known.get(key)
        node = ir.Node(call.function[0], call.function[1], given, num_outputs=len(results), name=call.name)
        if call.outer:
            node.metadata_props[_CALL] = call.outer
        graph.insert_before(group[0], node)
        for old, new in zip(results, node.outputs, strict=True):
            new.name, new.type, new.shape = old.name, old.type, old.shape
            for user, at in list(old.uses()):
                if user not in inside:
                    user.replace_input_with(at, new)
            for at, value in enumerate(list(graph.outputs)):
                if value is old:
                    graph.outputs[at] = new
        if function is None:
            function = self._function(graph, group, inside, given, results, call)
            self._known[key] = function
        else:
            graph.remove(group, safe=False)
            for each in group:
                for at in range(len(each.inputs)):
                    each.replace_input_with(at, None)
        node.overload = function.overload
        self._model.graph.opset_imports[call.function[0]] = call.version

    def _function(
        self,
        graph: ir.Graph,
        group: list[ir.Node],
        inside: set[ir.Node],
        given: list[ir.Value],
        results: list[ir.Value],
        call: Call,
    ) -> ir.Function:
        graph.remove(group, safe=False)
        parameters = [ir.Value(name=value.name) for value in given]
        for value, parameter in zip(given, parameters, strict=True):
            for user, at in list(value.uses()):
                if user in inside:
                    user.replace_input_with(at, parameter)
        imports = self._model.graph.opset_imports
        domains = {each.domain for each in inside}
        own = {domain: imports.get(domain, 1) for domain in sorted(domains)}
        body = ir.Graph(parameters, results, nodes=group, opset_imports=own, name=call.function[1])
        is_first = (*call.function, "") not in self._model.functions
        overload = "" if is_first else str(next(self._count) + 2)
        function = ir.Function(*call.function, overload, graph=body, attributes=[])
        self._model.functions[function.identifier()] = function
        return function


def _with_between(graph: ir.Graph, nodes: list[ir.Node]) -> list[ir.Node]:
    """The nodes of a call, with the Casts and constants that a cast added among them, in the order of the graph."""
    group = set(nodes)
    for node in graph:
        if node in group or _CALL in node.metadata_props or node.op_type not in ("Cast", "Constant"):
            continue
        users = [user for value in node.outputs for user, _ in value.uses()]
        is_output = any(value.is_graph_output() for value in node.outputs)
        reads = [value.producer() for value in node.inputs if value is not None]
        if users and not is_output and all(user in group for user in users) and all(each in group for each in reads):
            group.add(node)
    return [node for node in graph if node in group]


def _all(node: ir.Node) -> Iterator[ir.Node]:
    """A node, and those in its bodies."""
    yield node
    for body in bodies(node):
        for each in body:
            yield from _all(each)


def _read(node: ir.Node) -> Iterator[ir.Value]:
    """What a node reads, also in its bodies, of values that these do not have."""
    yield from (value for value in node.inputs if value is not None)
    for body in bodies(node):
        own = {*body.inputs, *body.initializers.values()}
        for each in body:
            own.update(value for inner in _all(each) for value in inner.outputs)
            own.update(value for inner in _all(each) for graph in bodies(inner) for value in graph.inputs)
            own.update(
                value for inner in _all(each) for graph in bodies(inner) for value in graph.initializers.values()
            )
        for each in body:
            yield from (value for value in _read(each) if value not in own)


def _is_apart(graph: ir.Graph, group: list[ir.Node], inside: set[ir.Node]) -> bool:
    """Whether a node outside reads what the nodes give, and gives what they read."""
    after: set[ir.Value] = {value for node in group for value in node.outputs}
    beyond: set[ir.Value] = set()
    for node in graph:
        if node in inside:
            if any(value in beyond for value in _read(node)):
                return True
        elif any(value in after or value in beyond for value in _read(node)):
            beyond.update(node.outputs)
    return False


def _returns_outer(group: list[ir.Node], given: list[ir.Value]) -> bool:
    """Whether a body gives a value of outside itself, or stores weights, which a function cannot have."""
    for node in group:
        for inner in _all(node):
            for body in bodies(inner):
                if body.initializers or any(value in given for value in body.outputs):
                    return True
    return False


def _key(group: list[ir.Node], given: list[ir.Value], results: list[ir.Value]) -> tuple[object, ...]:
    """What two calls have in common whose functions are the same."""
    numbers: dict[ir.Value | None, int] = {None: -1}
    for value in (*given, *(value for node in group for value in node.outputs)):
        numbers.setdefault(value, len(numbers))
    found: list[object] = []
    for node in group:
        attributes = tuple(sorted((name, _written(each)) for name, each in node.attributes.items()))
        inputs = tuple(numbers[value] for value in node.inputs)
        named = tuple(bool(value.name) for value in node.outputs)
        found.append((node.domain, node.op_type, node.overload, attributes, inputs, named))
    return *found, tuple(numbers[value] for value in results)


def _written(attribute: ir.Attr) -> bytes:
    if attribute.type == ir.AttributeType.TENSOR:  # whatever its name is
        tensor = attribute.as_tensor()
        return f"{tensor.dtype} {tensor.shape} ".encode() + tensor.tobytes()
    return ir.to_proto(attribute).SerializeToString()
