"""Which nodes of the file a node of the runtime stands for, after fusions and other optimisations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from opbridge.profiling.file_graph import FileGraph, FileNode, RunNode, core_name

__all__ = ["Origin", "origins"]

_CAST_BEFORE = "InsertedPrecisionFreeCast_"
"""What the values, and nodes named after them, begin with where float16 is computed in float32."""


@dataclass(frozen=True)
class Origin:
    """Where a node of the runtime comes from.

    Attributes:
        of: The nodes of the file that it stands for, the one that it is named after first; none where the runtime
            inserted it.
        near: For an inserted node, the node of the file that it was inserted for; None where that is not known.
        holder: The node of the runtime whose body it is in; "" for one of the model's own graph.
    """

    of: tuple[FileNode, ...] = ()
    near: FileNode | None = None
    holder: str = ""


def origins(file: FileGraph, run: FileGraph) -> dict[str, Origin]:
    """The origins of the runtime's nodes, by their names.

    1. A node has the name of a node of the file or of its output, or begins with it: fusions append words to a name.
    2. Nodes between which values pass that the file does not have are one group. The nodes of the file between the
       values that a group reads and gives are what the group stands for.
    3. In a group of several nodes, one that is named after a node of another operator (a Conv named after the Relu
       that was fused into it) stands for the nearest node before it of its own operator, and all between.
    4. What is left of the nodes of the file belongs to the node that stands for what is nearest before it, or else
       after it; what is left of the runtime's nodes was inserted for the nearest node of the file.
    5. A group in which no node is named after the file, such as the nodes of a function that was inlined, stands for
       all of its nodes of the file.

    Args:
        file: The graph of the file, whose nodes have names of their own.
        run: The graph that the runtime runs.
    """
    named = {value: node for node in file.all_nodes() for value in node.outputs}
    named |= {node.name: node for node in file.all_nodes()}
    return dict(_of_graph(file, run, named, ""))


def _of_graph(file: FileGraph, run: FileGraph, named: dict[str, FileNode], holder: str) -> Iterator[tuple[str, Origin]]:
    found = _Matching(file, run, named)
    for node in run.nodes:
        yield node.name, Origin(tuple(found.of[node.name]), found.near.get(node.name), holder)
    for (name, attribute), body in run.bodies.items():
        inside = [file.bodies.get((each.name, attribute)) for each in found.of.get(name, ())]
        yield from _of_graph(next(filter(None, inside), FileGraph()), body, named, name)


class _Matching:
    """The nodes of one graph of the runtime, and those of the file.

    Attributes:
        of: The nodes of the file that each stands for, by its name.
        near: The nodes of the file that inserted ones are nearest to, by their names.
    """

    def __init__(self, file: FileGraph, run: FileGraph, named: dict[str, FileNode]) -> None:
        self.of: dict[str, list[FileNode]] = {node.name: [] for node in run.nodes}
        self.near: dict[str, FileNode] = {}
        self._file = file
        self._producer = {value: node for node in file.nodes for value in node.outputs}
        self._folded = _constant_nodes(file)
        self._taken: set[str] = set()
        known = {value for node in run.nodes for value in node.outputs if value in self._producer}
        for node in run.nodes:
            origin = named.get(_stem(node.name.removeprefix(_CAST_BEFORE), named))
            is_cast = node.operator == "Cast"  # an inserted one may be named after the value that it casts
            if origin is None or origin.name in self._taken or (is_cast and origin.operator != "Cast"):
                continue
            self._take(node, origin)
        for group in _groups(run.nodes, known):
            self._match(group, known)

    def _take(self, node: RunNode, of: FileNode) -> None:
        self.of[node.name].append(of)
        self._taken.add(of.name)

    def _match(self, group: Sequence[RunNode], known: set[str]) -> None:
        region = self._region(group, known)
        left = [each for each in region if each.name not in self._taken]
        if len(group) == 1:
            for each in left:
                self._take(group[0], each)
        elif left:
            self._by_operators(group, left)
            self._by_neighbours(group, region)
        if len(group) > 1 or not self.of[group[0].name]:
            self._inserted(group)

    def _region(self, group: Sequence[RunNode], known: set[str]) -> list[FileNode]:
        """The nodes of the file between what a group reads and what it gives."""
        own = {value for node in group for value in node.outputs}
        named = [value for node in group for each in self.of[node.name] for value in each.outputs]
        waiting = [value for value in own if value in known]
        waiting += [value for value in named if value in own or value not in known]
        found: dict[str, FileNode] = {}
        while waiting:
            node = self._producer.get(waiting.pop())
            if node is None or node.name in found or node.name in self._folded:
                continue
            found[node.name] = node
            waiting += [value for value in node.inputs if value in own or value not in known]
        return list(found.values())

    def _by_operators(self, group: Sequence[RunNode], left: Sequence[FileNode]) -> None:
        """Rule 3."""
        free = {each.name for each in left}
        for node in group:
            own = self.of[node.name]
            if not own or core_name(own[0].operator) == core_name(node.operator):
                continue
            before = {own[0].name: [own[0]]}
            waiting = [own[0]]
            while waiting:
                here = waiting.pop(0)
                if core_name(here.operator) == core_name(node.operator):
                    for each in before[here.name][1:]:
                        if each.name not in self._taken:
                            self._take(node, each)
                    break
                for value in here.inputs:
                    maker = self._producer.get(value)
                    if maker is not None and maker.name in free and maker.name not in before:
                        before[maker.name] = [*before[here.name], maker]
                        waiting.append(maker)

    def _by_neighbours(self, group: Sequence[RunNode], region: Sequence[FileNode]) -> None:
        """The first part of rule 4, and rule 5."""
        owner = {each.name: node for node in group for each in self.of[node.name]}
        if not owner:
            for each in region:
                for node in group:
                    self.of[node.name].append(each)
                self._taken.add(each.name)
            return
        readers: dict[str, list[FileNode]] = defaultdict(list)
        for each in region:
            for value in each.inputs:
                readers[value].append(each)
        in_order = sorted(region, key=lambda each: each.position)
        for each in in_order:
            if each.name not in owner and each.name not in self._taken:
                makers = (self._producer.get(value) for value in each.inputs)
                self._join(each, (one for one in makers if one is not None), owner)
        for each in reversed(in_order):
            if each.name not in owner and each.name not in self._taken:
                self._join(each, (one for value in each.outputs for one in readers[value]), owner)

    def _join(self, node: FileNode, neighbours: Iterable[FileNode], owner: dict[str, RunNode]) -> None:
        found = next((owner[each.name] for each in neighbours if each.name in owner), None)
        if found is not None:
            owner[node.name] = found
            self._take(found, node)

    def _inserted(self, group: Sequence[RunNode]) -> None:
        """The second part of rule 4."""
        makers = {value: node for node in group for value in node.outputs}
        readers: dict[str, list[RunNode]] = defaultdict(list)
        for node in group:
            for value in node.inputs:
                readers[value].append(node)
        for node in group:
            if not self.of[node.name]:
                near = next(self._nearest(node, makers, readers), None)
                if near is not None:
                    self.near[node.name] = near

    def _nearest(
        self, node: RunNode, makers: dict[str, RunNode], readers: dict[str, list[RunNode]]
    ) -> Iterator[FileNode]:
        """The nodes of the file around an inserted node: what reads it, what the file computes there, what it reads."""
        yield from (one for value in node.outputs for each in readers[value] for one in self.of[each.name])
        yield from (self._producer[value] for value in node.outputs if value in self._producer)
        yield from (one for value in node.inputs if value in makers for one in self.of[makers[value].name])
        yield from (self._producer[value] for value in node.inputs if value in self._producer)


def _groups(nodes: Sequence[RunNode], known: set[str]) -> list[list[RunNode]]:
    """Nodes between which values pass that the file does not have, in one list each."""
    parent = {node.name: node.name for node in nodes}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    maker = {value: node.name for node in nodes for value in node.outputs if value not in known}
    for node in nodes:
        for value in node.inputs:
            if value in maker:
                parent[root(node.name)] = root(maker[value])
    found: dict[str, list[RunNode]] = {}
    for node in nodes:
        found.setdefault(root(node.name), []).append(node)
    return list(found.values())


def _constant_nodes(file: FileGraph) -> set[str]:
    """The nodes that compute with stored values only, which a runtime computes when it loads the file."""
    constants, found = set(file.constants), set()
    for node in file.nodes:
        if node.inputs and constants.issuperset(node.inputs):
            constants.update(node.outputs)
            found.add(node.name)
    return found


def _stem(name: str, named: dict[str, FileNode]) -> str:
    """The name of the file's node, or of its output, that a name is or begins with; "" where there is none."""
    while name and name not in named:
        at = max(name.rfind("/"), name.rfind("_"))
        name = name[:at] if at > 0 else ""
    return name
