"""One graph of several captures, each of which is the model for sizes of its own.

1. What is the same in all captures comes first.
2. An operator `cond` on the sizes follows: what is left of the first capture, or of the others, which are joined in the
   same path. Its results are the outputs of the model that differ.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from opbridge.base.sources import Source
from opbridge.base.torch_private import torch_decisions, torch_proxies, torch_sizes, torch_tracing
from opbridge.base.torch_private.torch_branch_operators import COND
from opbridge.capture.guards.conditions import Conditions, hold, of_one_region
from opbridge.capture.guards.trial_sizes import TrialSizes
from opbridge.capture.guards.wording import renamed
from opbridge.capture.same_graph import placeholders_of
from opbridge.capture.size_branches.size_numbers import NotJoined, SizeNumbers
from opbridge.capture.value_numbers import ValueNumbering, is_number
from opbridge.graph.captured_graph import CapturedGraph, Leaf, Weight
from opbridge.graph.decisions import Asked

__all__ = ["SizedCapture", "joined", "told"]


@dataclass(eq=False)
class SizedCapture:
    """A capture that is the model for some sizes.

    Attributes:
        graph: The capture, without in-place operators.
        regions: Where it is the model: the conditions of one of these hold.
        sizes: Sizes of one of them, by symbol.
        sources: The line that tells it from those before it, with the lines that called it.
    """

    graph: CapturedGraph
    regions: list[Conditions]
    sizes: dict[str, int]
    sources: tuple[Source, ...] = ()

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is the model for sizes."""
        return any(hold(region, sizes) for region in self.regions)


def joined(captures: Sequence[SizedCapture], common: Conditions) -> CapturedGraph:
    """One graph of several captures.

    Args:
        captures: The captures, two or more.
        common: The conditions of every region, which the graph need not ask for.

    Raises:
        NotJoined: Their outputs differ in dtype or rank, or a condition is no expression of the inputs' sizes.
    """
    for capture in captures[1:]:
        _check_alike(captures[0].graph, capture.graph)
    return _Joining(captures, {each.expression for each in common}).graph()


def _check_alike(one: CapturedGraph, other: CapturedGraph) -> None:
    if one.structure != other.structure or len(one.outputs) != len(other.outputs):
        raise NotJoined("the model returns a different structure for some sizes")
    for first, second in zip(one.outputs, other.outputs, strict=True):
        if (first.node is None) != (second.node is None) or (first.node is None and first.value != second.value):
            raise NotJoined(f"'{first.name}' is a constant that differs between branches")
    if one.updated or other.updated:
        raise NotJoined("the model writes to its buffers in a branch")


class _Level:
    """A graph that is being made: the whole, or a body of an operator `cond`.

    Args:
        around: The level that this one is a body in; None for the whole.
    """

    def __init__(self, around: _Level | None = None) -> None:
        self._around = around
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}
        self.given: dict[Node, Node] = {}
        self._last: Node | None = None

    def here(self, node: Node, value: Any = None) -> Node:
        """A node of this level for one of a level around it, which becomes an argument of the body.

        Args:
            node: The node.
            value: Its value without numbers, as the capture has it that is copied here; by default the node's own.
        """
        if node.graph is self.graph:
            return node
        assert self._around is not None
        outer = self._around.here(node, value)
        if outer not in self.given:
            self.given[outer] = self._argument(outer.meta["val"] if value is None else value)
        return self.given[outer]

    def _argument(self, value: Any) -> Node:
        first = next(iter(self.graph.nodes), None)
        if self._last is not None:
            context = self.graph.inserting_after(self._last)
        else:
            context = self.graph.inserting_before(first)
        with context:
            node = self._last = self.graph.placeholder("outer")
        node.target = node.name
        node.meta["val"] = value
        return node

    def take(self, outer: Sequence[Node]) -> None:
        """Makes the arguments of the body these, in this order."""
        for node in outer:
            if node not in self.given:
                self.given[node] = self._argument(node.meta["val"])
        for node in reversed(outer):
            first = next(iter(self.graph.nodes))
            if first is not self.given[node]:
                first.prepend(self.given[node])

    def attribute(self, value: Any) -> str:
        """The name of a new attribute."""
        name = f"held_{len(self.attributes)}"
        self.attributes[name] = value
        return name

    def module(self) -> GraphModule:
        """The graph as a module."""
        return torch_tracing.lazy_graph_module(self.attributes, self.graph)


_Known = dict[Node, Node]
"""The nodes of a capture, with those that stand for them in the graph of all."""


class _Joining:
    def __init__(self, captures: Sequence[SizedCapture], common: set[str]) -> None:
        self._captures, self._common = captures, common
        self._keys_of_all = ValueNumbering()
        self._keys = [
            self._keys_of_all.of(each.graph.module, placeholders_of(each.graph, self._keys_of_all)) for each in captures
        ]
        self._needed = [_needed(each.graph) for each in captures]
        self._top = _Level()
        self._weights: dict[Node, Weight] = {}
        self._asked: dict[tuple[int, int], int] = {}
        self._count = 0
        self._open_sizes: set[str] = set()

    def graph(self) -> CapturedGraph:
        """The graph of all captures."""
        first = self._captures[0].graph
        known = self._placeholders()
        self._numbers = SizeNumbers(self._top.graph, first, known[0])
        expressions = [self._expression(each) for each in self._captures[:-1]]
        self._told = [told(each, first.places) for each in expressions]
        answers = [self._numbers.of(each) for each in expressions]
        wanted = [index for index, leaf in enumerate(first.outputs) if leaf.node is not None]
        found = dict(zip(wanted, self._build(self._top, range(len(known)), known, wanted, answers), strict=True))
        outputs = [found.get(index, leaf.value) for index, leaf in enumerate(first.outputs)]
        self._top.graph.output(tuple(outputs))
        _drop_unused(self._top.graph)
        return dataclasses.replace(
            first,
            module=self._top.module(),
            inputs=tuple(
                leaf if leaf.node is None else Leaf(leaf.name, known[0][leaf.node], leaf.value) for leaf in first.inputs
            ),
            outputs=tuple(Leaf(leaf.name, found.get(index), leaf.value) for index, leaf in enumerate(first.outputs)),
            weights=self._weights,
            branch_sizes=tuple(each.sizes for each in self._captures),
        )

    def _placeholders(self) -> list[_Known]:
        """The inputs and the weights of all captures, each weight once."""
        made: dict[int, Node] = {}
        names: set[str] = set()
        known: list[_Known] = []
        for capture, keys in zip(self._captures, self._keys, strict=True):
            nodes: _Known = {}
            for node in capture.graph.graph.nodes:
                if node.op != "placeholder":
                    continue
                if keys[node] not in made:
                    copied = made[keys[node]] = self._placeholder(node, capture.graph.weights.get(node), names)
                    copied.meta.update(node.meta)
                nodes[node] = made[keys[node]]
            known.append(nodes)
        return known

    def _placeholder(self, node: Node, weight: Weight | None, names: set[str]) -> Node:
        if weight is None:
            return torch_proxies.placeholder(self._top.graph, node.name)
        copied = self._top.graph.placeholder(node.name)
        copied.target = copied.name
        name, number = weight.name, 1
        while name in names:
            name, number = f"{weight.name}_{number}", number + 1
        names.add(name)
        self._weights[copied] = dataclasses.replace(weight, name=name)
        return copied

    def _expression(self, capture: SizedCapture) -> str:
        """The condition that a capture is the model."""
        regions = [tuple(each for each in region if each.expression not in self._common) for region in capture.regions]
        return of_one_region(regions)[0]

    def _build(
        self, level: _Level, which: Sequence[int], known: list[_Known], wanted: Sequence[int], answers: list[Any]
    ) -> list[Node]:
        """Makes what some captures compute, and gives the nodes of a level for some of their outputs."""
        first = which[0]
        self._share(level, which, known)
        outputs = {index: [self._output(each, index) for each in which] for index in wanted}
        if len(which) == 1:
            return [level.here(known[first][found], found.meta["val"]) for (found,) in outputs.values()]
        same = {
            index: known[first][nodes[0]]
            for index, nodes in outputs.items()
            if len({known[each].get(node) for each, node in zip(which, nodes, strict=True)}) == 1
            and nodes[0] in known[first]
        }
        rest = [index for index in wanted if index not in same]
        decided = dict(zip(rest, self._decided(level, which, known, rest, answers), strict=True)) if rest else {}
        return [decided[index] if index in decided else level.here(same[index]) for index in wanted]

    def _decided(
        self, level: _Level, which: Sequence[int], known: list[_Known], wanted: Sequence[int], answers: list[Any]
    ) -> list[Node]:
        """The results of an operator `cond`, one branch of which is the first of some captures."""
        asked = Asked(self._number(), self._captures[which[1]].sources, on_sizes=self._told[which[0]])
        bodies, results = [], []
        for branch in (which[:1], which[1:]):
            inner = _Level(level)
            found = self._build(inner, branch, [dict(each) for each in known], wanted, answers)
            results.append([each.meta["val"] for each in found])
            bodies.append((inner, [_own(inner, each, asked) for each in found]))
        outer = list(dict.fromkeys(node for inner, _ in bodies for node in inner.given))
        modules = []
        for inner, found in bodies:
            inner.take(outer)
            inner.graph.output(tuple(found))
            modules.append(inner.module())
        graph = level.graph
        held = [graph.create_node("get_attr", level.attribute(module), (), {}) for module in modules]
        answer = answers[which[0]]
        if isinstance(answer, Node):
            answer = level.here(answer)
        node = graph.create_node("call_function", COND, (answer, *held, tuple(outer)), {}, "cond")
        node.meta["sources"] = asked
        values = [self._union(which, *each) for each in zip(*results, strict=True)]
        node.meta["val"] = values
        torch_sizes.note_unknown_symbols(node, values[0].fake_mode.shape_env, values)
        items = []
        for index, value in enumerate(values):
            item = graph.call_function(operator.getitem, (node, index))
            item.meta.update(val=value, sources=asked)
            items.append(item)
        return items

    def _number(self) -> int:
        self._count += 1
        return self._count - 1

    def _output(self, which: int, index: int) -> Node:
        node = self._captures[which].graph.outputs[index].node
        assert node is not None
        return node

    def _union(self, which: Sequence[int], one: Any, other: Any) -> Any:
        """A tensor without values that stands for what one of some captures gives."""
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            raise NotJoined("the model returns a number that differs between branches")
        if one.dtype != other.dtype or one.dim() != other.dim():
            raise NotJoined("an output of the model has a different dtype or rank for some sizes")
        differing = {
            index
            for index in torch_decisions.differing(one, other)
            if not self._are_equal(which[1:], one.shape[index], other.shape[index])
        }
        return torch_decisions.like(one.fake_mode, one, differing, ignored=False)

    def _are_equal(self, others: Sequence[int], size: Any, another: Any) -> bool:
        """Whether a size of the first capture is that of others, where these are the model: `n` is 1 where `n == 1`."""
        if torch_sizes.unknown_symbols([size, another]):
            return False
        tried = []
        for capture in (self._captures[each] for each in others):
            conditions = itertools.chain.from_iterable(capture.regions)
            trial = TrialSizes(capture.sizes, dict.fromkeys(capture.sizes, (1, None)), conditions)
            tried += [capture.sizes, *trial.beside()]
        return all(
            torch_sizes.example_with(size, sizes) == torch_sizes.example_with(another, sizes)
            for sizes in tried
            if any(self._captures[each].covers(sizes) for each in others)
        )

    def _share(self, level: _Level, which: Sequence[int], known: list[_Known]) -> None:
        """Makes the nodes that are the same in some captures, all of one capture."""
        first = which[0]
        of_all = set.intersection(*({self._keys[each][node] for node in self._needed[each]} for each in which))
        made: dict[int, Node] = {}
        for node in self._captures[first].graph.graph.nodes:
            key = self._keys[first].get(node)
            if node not in self._needed[first] or node in known[first] or key not in of_all:
                continue
            if node.op == "get_attr" or not self._is_within(level, node, known[first], made, alone=len(which) == 1):
                continue
            if key not in made:
                made[key] = self._copied(level, node, known[first], first)
            known[first][node] = made[key]
        for each in which[1:]:
            for node, key in self._keys[each].items():
                if key in made:
                    known[each].setdefault(node, made[key])

    def _is_within(self, level: _Level, node: Node, known: _Known, made: Any, *, alone: bool) -> bool:
        """Whether what a node takes is made already, or can be."""
        if alone:
            return True
        if is_number(node):
            return all(each in known for each in node.all_input_nodes)
        return all(
            each in known or each.op == "get_attr" or (is_number(each) and self._number_of(each) is not None)
            for each in node.all_input_nodes
        )

    def _number_of(self, node: Node) -> Any:
        """The node, or the value, of a number that follows from the sizes of the inputs; None where it has none."""
        try:
            return self._numbers.of(torch_sizes.expression(node.meta["val"], {}))
        except NotJoined:
            return None

    def _copied(self, level: _Level, node: Node, known: _Known, which: int) -> Node:
        def argument(each: Node) -> Any:
            if each in known:
                return level.here(known[each], each.meta.get("val"))
            if each.op == "get_attr":
                module = self._captures[which].graph.module
                value = operator.attrgetter(str(each.target))(module)
                self._renumber(value, which)
                made = level.graph.create_node("get_attr", level.attribute(value), (), {})
                made.meta.update(each.meta)
                return made
            found = self._number_of(each)
            return level.here(found, each.meta["val"]) if isinstance(found, Node) else found

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), argument)
        copied = level.graph.create_node(node.op, node.target, args, kwargs, node.name)
        copied.meta.update(node.meta)
        self._renumber_node(copied, which)
        return copied

    def _renumber(self, value: Any, which: int) -> None:
        """Gives the decisions in a body numbers of their own."""
        if isinstance(value, GraphModule):
            for node in value.graph.nodes:
                self._renumber_node(node, which)
                if node.op == "get_attr":
                    self._renumber(operator.attrgetter(str(node.target))(value), which)

    def _renumber_node(self, node: Node, which: int) -> None:
        asked = node.meta.get("sources")
        if isinstance(asked, Asked):
            key = which, asked.number
            if key not in self._asked:
                self._asked[key] = self._number()
            node.meta["sources"] = dataclasses.replace(asked, number=self._asked[key])


def told(expression: str, places: Mapping[str, str]) -> str:
    """An expression over symbols as one over the sizes of inputs: "x.shape[0] >= 2"."""
    text = renamed(expression, places)
    inner = text[1:-1]
    return inner if text == f"({inner})" and not {"(", ")"} & set(inner) else text


def _own(level: _Level, node: Node, asked: Asked) -> Node:
    """A result of a body, which is no argument of it."""
    if node.op != "placeholder":
        return node
    copied = level.graph.call_function(
        torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
    )
    copied.meta.update(val=node.meta["val"], sources=asked)
    return copied


def _needed(graph: CapturedGraph) -> set[Node]:
    """The nodes that the outputs depend on, and those that check something."""
    found: set[Node] = set()
    waiting = [node for node in graph.graph.nodes if node.op == "output" or node.is_impure()]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return {node for node in found if node.op != "output"}


def _drop_unused(graph: Graph) -> None:
    """Removes numbers that nothing reads."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users and is_number(node):
            graph.erase_node(node)
