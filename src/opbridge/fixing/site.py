"""The place of a finding, with what a repair looks at and builds with; and the register of repairs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import onnx_ir as ir

from opbridge.conversion.names import Names
from opbridge.conversion.placing import detach, replace
from opbridge.conversion.step import Refused, Step
from opbridge.conversion.types import Types
from opbridge.rules.findings import Finding
from opbridge.rules.looking import Looked, bodies, name_of
from opbridge.targets import Target
from opbridge.targets.facts import Fact, Missing, Only

__all__ = ["Around", "Refused", "Repair", "Site", "has_repair", "repair", "repairs_of"]

_Kind = TypeVar("_Kind", bound=Fact)

_NODE, _OUTPUT, _OPERATOR = "opbridge.node", "opbridge.output", "opbridge.operator"
"""The metadata of what gives the value of a node of the capture, and not of the nodes beside it."""


class Around:
    """A model while it is repaired: what the rules see of it, and what the repairs share.

    Args:
        model: The model.
        targets: What it is repaired for.
        asked: The rules that were asked for by their names.
        looked: The model as the rules see it, where that is known.
    """

    def __init__(
        self, model: ir.Model, targets: Sequence[Target], asked: Iterable[str] = (), looked: Looked | None = None
    ) -> None:
        self.model, self.targets, self.asked = model, targets, frozenset(asked)
        self.name = Names(model)
        self.looked = Looked(model) if looked is None else looked
        self.types = Types(model, None)
        self._unread = {each for graph in self._graphs() for each in _unread_of(graph)}

    def look(self) -> None:
        """Looks at the model again, after it was changed, and without what repairs have left unread."""
        for graph in self._graphs():
            _remove_unread(graph, self._unread)
        self.looked = Looked(self.model, self.looked)
        self.types = Types(self.model, None)

    def _graphs(self) -> list[ir.Graph | ir.Function]:
        """The model's graph and functions with all bodies, those that stand in others first."""
        found: list[ir.Graph | ir.Function] = []
        waiting: list[ir.Graph | ir.Function] = [self.model.graph, *self.model.functions.values()]
        while waiting:
            found.append(waiting.pop())
            waiting.extend(body for node in found[-1] if node.attributes for body in bodies(node))
        return found[::-1]


def _unread_of(graph: ir.Graph | ir.Function) -> Iterator[ir.Node | ir.Value]:
    """The nodes and the initializers that nothing reads."""
    yield from (node for node in graph if not any(map(_is_read, node.outputs)))
    if isinstance(graph, ir.Graph):
        yield from (each for each in graph.initializers.values() if not _is_read(each))


def _remove_unread(graph: ir.Graph | ir.Function, kept: Container[ir.Node | ir.Value]) -> None:
    """Removes the nodes and the initializers that nothing reads, but for some."""
    for node in reversed(list(graph)):
        if node not in kept and not any(map(_is_read, node.outputs)):
            graph.remove(node, safe=True)
    if not isinstance(graph, ir.Graph):
        return
    for name, value in list(graph.initializers.items()):
        if value not in kept and not _is_read(value) and not value.is_graph_input():
            graph.initializers.pop(name)


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


@dataclass
class Site:
    """The place of one finding.

    Attributes:
        around: The model.
        finding: The finding.
        found_at: The node; None: the whole model.
        steps: What repairs have begun to build.
    """

    around: Around
    finding: Finding
    found_at: ir.Node | None
    steps: list[Step] = field(default_factory=list)

    @property
    def looked(self) -> Looked:
        """The model as the rules see it."""
        return self.around.looked

    @property
    def model(self) -> ir.Model:
        """The model."""
        return self.around.model

    @property
    def node(self) -> ir.Node:
        """The node."""
        assert self.found_at is not None
        return self.found_at

    @property
    def opset(self) -> int:
        """The opset that the node is of."""
        return self.looked.opset_of(self.node)

    def facts(self, kind: type[_Kind]) -> Iterator[_Kind]:
        """What the targets of the finding do not take of the node's operator."""
        for target in self.around.targets:
            if self.finding.target in ("", str(target)):
                yield from (each for each in target.of_kind(kind) if name_of(self.node) in each.operators)

    def is_lacked(self, operator: str) -> bool:
        """Whether a target of the finding has no such operator."""
        for target in self.around.targets:
            if self.finding.target in ("", str(target)):
                lists = target.of_kind(Only)
                if lists and not any(operator in each.operators for each in lists):
                    return True
                if any(operator in each.operators for each in target.of_kind(Missing)):
                    return True
        return False

    def step(self, node: ir.Node | None = None) -> Step:
        """What builds others in the place of a node, in the forms of its opset.

        Args:
            node: The node; None: that of the finding.
        """
        chosen = self.node if node is None else node
        opset = self.looked.opset_of(chosen)
        made = Step(chosen, self.around.types, opset, opset, self.around.name)
        self.steps.append(made)
        return made

    def put(self, step: Step, *results: ir.Value | None) -> None:
        """Puts what was built in the place of the node, with its results in the place of the node's outputs."""
        _give_types(step)
        replace(step, results)
        last = {each.producer() for each in results if each is not None}
        for node, _ in step.new:
            if node not in last:
                node.metadata_props.pop(_NODE, None)

    def put_before(self, step: Step) -> None:
        """Puts what was built in front of the node, which stays."""
        assert step.node.graph is not None
        _give_types(step)
        step.node.graph.insert_before(step.node, [each for each, _ in step.new])
        for node, _ in step.new:
            node.metadata_props.pop(_NODE, None)

    def stands_for(self, value: ir.Value, node: ir.Node) -> None:
        """Notes that a value is what a node gave that is removed, so that it is compared with the model's.

        Args:
            value: The value, of a node that is in the model. Its type may be another one.
            node: The node, of one output. Several nodes of one operator may have given the same.
        """
        made, key = value.producer(), node.metadata_props.get(_NODE)
        if made is None or key is None or len(made.outputs) != 1:
            return
        of_node = {name: text for name, text in node.metadata_props.items() if name not in (_NODE, _OUTPUT)}
        known = made.metadata_props.get(_NODE)
        if known is not None and made.metadata_props.get(_OPERATOR) != of_node.get(_OPERATOR):
            return
        keys = [key] if known is None else [*known.split(), key]
        made.metadata_props.update(of_node)
        made.metadata_props.update({_NODE: " ".join(keys), _OUTPUT: " ".join([str(value.name)] * len(keys))})

    def give_up(self) -> None:
        """Forgets what was built and not put anywhere."""
        for node in itertools.chain.from_iterable(each.new for each in self.steps):
            if node[0].graph is None:
                detach(node[0])


def _give_types(step: Step) -> None:
    """Notes in the model what is known of the values that were built."""
    for value in itertools.chain.from_iterable(each.outputs for each, _ in step.new):
        dtype, shape = step.types.dtype(value), step.types.shape(value)
        if dtype is not None and value.type is None:
            value.type = ir.TensorType(dtype)
            value.shape = None if shape is None else ir.Shape(shape)


Repair: TypeAlias = Callable[[Site], str]
"""Rewrites the model at a site, and says what it did. Where it cannot, it leaves the model as it is, and gives "", or
raises Refused with the reason."""

_REPAIRS: dict[str, list[tuple[frozenset[str], Repair]]] = {}


_OFFERED: dict[Repair, Callable[[Finding], bool]] = {}
"""For repairs that are tried for all findings of a rule: whether there is a chance for one."""


def repair(
    *rules: str, operators: Iterable[str] = (), offered: Callable[[Finding], bool] | None = None
) -> Callable[[Repair], Repair]:
    """Registers what repairs the findings of rules; the first one that was registered comes first.

    Args:
        rules: The identifiers of the rules.
        operators: The operators that it is for, as "TopK"; none: all.
        offered: Whether it may repair a finding; None: any.
    """

    def register(function: Repair) -> Repair:
        for rule in rules:
            _REPAIRS.setdefault(rule, []).append((frozenset(operators), function))
        if offered is not None:
            _OFFERED[function] = offered
        return function

    return register


def repairs_of(finding: Finding) -> Iterator[Repair]:
    """What may repair a finding; those for its operator first."""
    found = _REPAIRS.get(finding.rule, ())
    for special in (True, False):
        for operators, function in found:
            if bool(operators) == special and (not operators or finding.operator in operators):
                if function not in _OFFERED or _OFFERED[function](finding):
                    yield function


def has_repair(finding: Finding) -> bool:
    """Whether there is a repair for findings of its kind."""
    return any(True for _ in repairs_of(finding))
