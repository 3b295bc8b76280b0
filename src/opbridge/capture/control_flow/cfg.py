"""The paths of a model as one flow of blocks: what each computes, and what it takes from the blocks before it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private.torch_branch_operators import CARRIED, FIRST_ITERATION
from opbridge.capture.control_flow.ambiguous_phi_sources import held as held_at
from opbridge.capture.control_flow.blocks import Block, Local, Loop, Outer, Phi, dominators_of, in_order
from opbridge.capture.control_flow.carried_numbers import carried
from opbridge.capture.control_flow.common_ends import common_end, likeness
from opbridge.capture.control_flow.differences import at, calls_unlike, given
from opbridge.capture.control_flow.execution_path import ExecutionPath
from opbridge.capture.control_flow.gathering import (
    GATHERING,
    LENGTH,
    LOOP,
    Gathering,
    no_iteration,
    no_rows,
    rows_of,
    rows_with,
)
from opbridge.capture.control_flow.known_numbers import is_known_as
from opbridge.capture.control_flow.merge_points import MergePoint, Unjoined
from opbridge.capture.control_flow.path_tree import PathTree
from opbridge.capture.control_flow.sizes_of_variables import sizes_of_variables
from opbridge.capture.control_flow.unify_arguments import Computed, Given, Pass, unify_arguments
from opbridge.graph.node_sources import sources_of

__all__ = ["ControlFlowGraph"]


_MADE = {FIRST_ITERATION: no_iteration, CARRIED: carried}
"""What takes the place of operators that a capture takes for values that data decide."""


class ControlFlowGraph:
    """The blocks of a model.

    Args:
        paths: Its paths.
        of_sizes: Whether sizes decide: operators at common ends give the same shapes then.

    Attributes:
        blocks: All of them, each after those that lead to it, but for the ends of iterations.
        loops: Those that iterations begin with.
        start: The first block.
        end: The last one.

    Raises:
        Unjoined: Paths that seemed to have joined do not do the same.
        PathsRefused: A loop cannot be left.
    """

    def __init__(self, paths: PathTree, *, of_sizes: bool = False, is_strict: bool = False) -> None:
        self._paths, self._of_sizes = paths, of_sizes
        self._is_strict = is_strict
        self._apart: set[Node] = set()  # operators that no common end has
        while not self._is_built():
            pass

    def dominators(self, block: Block) -> set[Block]:
        """The blocks that every path to one passes, and itself."""
        return self._dominators[block]

    def _is_built(self) -> bool:
        """Builds the blocks; False where some of their common ends are not common after all."""
        self.start, self.end = self._blocks()
        self.blocks = list(in_order(self.start))
        if not self._is_strict:
            self._split_common_ends()
        self.blocks = list(in_order(self.start))
        self._dominators = dominators_of(self.blocks)
        self.loops = {
            block: Loop.of(block, iterations, self._dominators)
            for block in self.blocks
            if (iterations := self._iterations(block))
        }
        self._defined: dict[Node, tuple[Block, int, int]] = {}
        for block in self.blocks:
            for each in block.passes:
                for index, node in enumerate(block.nodes(each)):
                    self._defined[node] = block, index, each[1]
        self._gatherings: list[Gathering] = []
        self._varying: list[Block] = []  # once for each variable that a block was given
        count = len(self._apart)
        for block in self.blocks:
            self._fill(block)
        if len(self._apart) != count:
            return False
        for gathering in self._gatherings:
            self._gather(gathering)
        return True

    def _blocks(self) -> tuple[Block, Block]:
        """A block for each answer, and an empty one before each decision that several lead to."""
        paths = self._paths
        entries: dict[MergePoint, Block] = {}
        answers: dict[Any, Block] = {}

        def length(each: Pass) -> int:
            path, number = each
            return len(path.segments[number])

        for edge, point in paths.next.items():
            if point is None or edge not in paths.through:
                continue
            answers[edge] = Block({each: (0, length(each)) for each in paths.through[edge]})
        for edge, point in paths.next.items():
            if point is None or edge not in answers:
                continue
            if point not in entries:
                at = {each: (length(each), length(each)) for each in point.passes}
                entries[point] = Block(at, decides=point is not paths.end, sources=point.sources, asks=point.asks)
            entry = entries[point]
            answers[edge].after[True] = entry
            entry.before.append(answers[edge])
        for edge, block in answers.items():
            if edge[0] is not None:
                entry = entries[edge[0]]
                entry.after[edge[1]] = block
                block.before.append(entry)
        return answers[None, False], entries[paths.end]

    def _split_common_ends(self) -> None:
        """Where several blocks that lead to one end with the same operators, those become a block of their own.

        The ends of the iterations of a loop that lists grow in stay apart: one may have appended what another has not.
        """
        for join in [block for block in self.blocks if len(block.before) > 1 and not block.asks]:
            if not any(
                number < len(path.events) and path.events[number].loop is not None for path, number in join.passes
            ):
                self._share(join, list(join.before))

    def _share(self, join: Block, blocks: list[Block]) -> None:
        groups: dict[Any, list[Block]] = {}
        for block in blocks:
            nodes = block.nodes(next(iter(block.passes)))
            if nodes:
                groups.setdefault(likeness(nodes[-1], with_shapes=self._of_sizes), []).append(block)
        for group in groups.values():
            if len(group) > 1:
                self._join_ends(join, group)

    def _join_ends(self, join: Block, group: list[Block]) -> None:
        count = common_end(group, self._apart, with_shapes=self._of_sizes)
        if not count:
            return
        common = Block({}, is_common_end=True)
        for block in group:
            for each, (first, last) in list(block.passes.items()):
                common.passes[each] = last - count, last
                block.passes[each] = first, last - count
            block.after = {True: common}
            join.before.remove(block)
            common.before.append(block)
        common.after = {True: join}
        join.before.append(common)
        self._share(common, list(group))

    def _fill(self, block: Block) -> None:
        """Gives a block its operators."""
        passes = block.passes
        counts = {each: len(block.nodes(each)) for each in passes}
        if len(set(counts.values())) != 1:
            raise Unjoined(calls_unlike(map(block.nodes, passes)))
        for index in range(next(iter(counts.values()))):
            nodes = {each: block.nodes(each)[index] for each in passes}
            some = next(iter(nodes.values()))
            if len({_operator(node, path) for (path, _), node in nodes.items()}) != 1:
                raise Unjoined(calls_unlike([each] for each in nodes.values()))
            if some.target in GATHERING:
                block.operators.append(self._gathered(block, nodes))
                continue
            try:
                args = self._form({each: node.args for each, node in nodes.items()}, block)
                kwargs = self._form({each: node.kwargs for each, node in nodes.items()}, block)
            except Unjoined:
                if not block.is_common_end:
                    raise
                self._apart.update(nodes.values())
                continue
            target = _MADE.get(some.target, some.target)
            block.operators.append((target, args, kwargs, some))
        if block.decides:
            asked = {(path, segment): path.decisions[segment].args[2] for path, segment in passes}
            block.condition = self._form(asked, block)
        elif block is self.end:
            returned = {each: each[0].graph.graph.output_node().args[0] for each in passes}
            block.results = self._form(returned, block)

    def _gathered(self, block: Block, nodes: Mapping[Pass, Node]) -> tuple[Any, Any, Any, Node]:
        """The operator that gives what the iterations of a loop have appended to a list."""
        (path, number), some = next(iter(nodes.items()))
        events = [(path, event) for event in range(number) if path.events[event].loop == some.args[LOOP]]
        loop = next((each for each in self.loops if not each.passes.keys().isdisjoint(events)), None)
        if loop is None or loop not in self._dominators[block]:
            raise Unjoined(f"a list is used although the loop that fills it may not have run{at(sources_of(some))}")
        gathering = Gathering(dict(nodes), loop, Phi({}))
        loop.variables.append(gathering.rows)
        self._gatherings.append(gathering)
        length = self._resolved(unify_arguments({each: node.args[LENGTH] for each, node in nodes.items()}), block)
        return rows_of, (gathering.rows, length, gathering.dim), {}, some

    def _gather(self, gathering: Gathering) -> None:
        """Gives a loop the rows that it carries: before the first iteration, and after each."""
        loop, rows, dim = gathering.loop, gathering.rows, gathering.dim
        iterations = self._iterations(loop)
        value = gathering.some.meta["val"]
        new: tuple[Any, Any, Any, Node]
        for before in loop.before:
            if before in iterations:
                elements = self._elements(gathering, before)
                if not elements:  # an iteration that appends nothing
                    rows.values[before] = rows
                    continue
                new = rows_with, (rows, elements, dim), {}, gathering.some
            else:
                known = {each: some for each in before.passes if (some := gathering.sizes(each)) is not None}
                if not known:
                    where = at(sources_of(gathering.some))
                    raise Unjoined(f"the shapes of the elements of a list are not known before its loop{where}")
                sizes = self._resolved(unify_arguments(known), before)
                new = no_rows, (sizes, dim, value.dtype, value.device), {}, gathering.some
                if elements := self._elements(gathering, before):  # the first iteration does something else
                    before.operators.append(new)
                    new = rows_with, (Local(before, len(before.operators) - 1), elements, dim), {}, gathering.some
            before.operators.append(new)
            rows.values[before] = Local(before, len(before.operators) - 1)

    def _elements(self, gathering: Gathering, before: Block) -> list[Any]:
        """What the iteration that ends with a block has appended, or the first ones where they are not in the loop.

        Raises:
            Unjoined: The passes of the block have appended other numbers of elements.
        """
        is_iteration = before in self._iterations(gathering.loop)
        known = {each: some for each in before.passes if (some := gathering.elements(each, is_iteration)) is not None}
        counts = {len(some) for some in known.values()}
        if len(counts) > 1 or (is_iteration and not counts):
            where = at(sources_of(gathering.some))
            raise Unjoined(f"branches append different numbers of elements to a list{where}")
        return [
            self._resolved(unify_arguments({each: some[index] for each, some in known.items()}), before)
            for index in range(max(counts, default=0))
        ]

    def _form(self, values: Mapping[Pass, Any], block: Block) -> Any:
        """The common form of an argument in the passes of a block, with places for nodes.

        Sizes of what variables of Python's hold take the place of numbers where these have no other common form.
        """
        try:
            with self._keeping_variables():
                return self._resolved(unify_arguments(values), block)
        except Unjoined:
            known_form = sizes_of_variables(block)
            if known_form is not None:
                with contextlib.suppress(Unjoined), self._keeping_variables():
                    return self._resolved(unify_arguments(values, known_form), block)
            raise

    @contextlib.contextmanager
    def _keeping_variables(self) -> Iterator[None]:
        """Within this context, variables are added to blocks; if it ends with an error, they are removed again."""
        count = len(self._varying)
        try:
            yield
        except Unjoined:
            while len(self._varying) > count:
                self._varying.pop().variables.pop()
            raise

    def _resolved(self, value: Any, block: Block) -> Any:
        """A form with places in the flow for the nodes of the paths."""
        if isinstance(value, Given):
            return self._place(value.nodes, block)
        if isinstance(value, Computed):
            found = Computed(value.target, self._resolved(value.args, block))
            for each, number in value.known.items():
                if not is_known_as(found, number, functools.partial(self._node, block=block, each=each)):
                    # it is that for another reason, such as what a decision before chose
                    raise Unjoined(f"a number is {number} in one branch and is computed in another{at(block.sources)}")
            return found
        if type(value) in (list, tuple):
            return type(value)(self._resolved(item, block) for item in value)
        if isinstance(value, dict):
            return {key: self._resolved(item, block) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self._resolved(part, block) for part in (value.start, value.stop, value.step)))
        return value

    def _place(self, nodes: Mapping[Pass, Node], block: Block) -> Any:
        """Where the value comes from that the passes of a block have as these nodes, as seen from there."""
        if self._is_strict and (found := self._of_decision_before(nodes, block)) is not None:
            return found
        if block.decides and not nodes.keys() >= block.passes.keys():
            nodes = _as_variable_of_python(nodes, block) or nodes
        some = next(iter(nodes.values()))
        if all(node.op in ("placeholder", "get_attr") for node in nodes.values()):
            identities = {_identity(node, path) for (path, _), node in nodes.items()}
            if len(identities) == 1:
                return self._outer(some, next(iter(nodes))[0])
        places = {self._defined[node][:2] if node in self._defined else None for node in nodes.values()}
        if len(places) == 1 and (place := next(iter(places))) is not None:
            home = place[0]
            is_above = home is block or home in self._dominators[block]
            if is_above and all(self._is_of_last_pass(node, each, block) for each, node in nodes.items()):
                return Local(*place)
        return self._variable(nodes, block)

    def _of_decision_before(self, nodes: Mapping[Pass, Node], block: Block) -> Any:
        """Where a value comes from that a variable of Python's holds at the decision before a block; else None."""
        if len(block.before) != 1 or not block.before[0].decides:
            return None
        (before,) = block.before
        seen = _passes_before(nodes, before)
        if not seen.keys() <= before.passes.keys():
            return None
        known = _as_variable_of_python(seen, before)
        return None if known is None else self._place(known, before)

    def _iterations(self, block: Block) -> list[Block]:
        """The blocks that lead back to one, at the end of an iteration of a loop.

        Raises:
            Unjoined: One leads back that does not come after it.
        """
        place = self.blocks.index(block)
        found = [before for before in block.before if self.blocks.index(before) >= place]
        if any(block not in self._dominators[each] for each in found):
            raise Unjoined(f"a loop is entered in several places{at(block.sources)}")
        return found

    def _is_of_last_pass(self, node: Node, each: Pass, block: Block) -> bool:
        """Whether a node is what its block gave when it was last passed before a pass of another."""
        home, _, made = self._defined[node]
        return made == _last_pass(home, each, block)

    def _node(self, place: Any, block: Block, each: Pass) -> Node | None:
        """The node that a value is in a pass of a block; None where it is not known."""
        path, segment = each
        if isinstance(place, Local):
            return place.block.nodes((path, _last_pass(place.block, each, block)))[place.index]
        if isinstance(place, Phi):
            passed = [number for other, number in place.nodes if other is path and number <= segment]
            return place.nodes[path, max(passed)] if passed else None
        return path.input(place.name) if place.name else None

    @staticmethod
    def _outer(node: Node, path: ExecutionPath) -> Any:
        if node.op == "get_attr":
            return Outer("", getattr(path.graph.module, str(node.target)))
        weight = path.graph.weights.get(node)
        return Outer(path.input_name(node)) if weight is None else Outer("", weight.tensor)

    def _variable(self, nodes: Mapping[Pass, Node], block: Block) -> Any:
        if not block.before:
            raise Unjoined(f"the first operators of the branches have different inputs: {_given_by(nodes)}")
        for variable in block.variables:
            known = variable.nodes
            if known == nodes or (block in self.loops and all(known.get(each) is n for each, n in nodes.items())):
                return variable
        if len(block.before) == 1:
            (before,) = block.before
            return self._place(_passes_before(nodes, before), before)
        if not nodes.keys() >= block.passes.keys():
            raise Unjoined(f"one branch has no value that corresponds to {_given_by(nodes)}")
        by_kind = {_kind(node): node for node in nodes.values()}
        if len(by_kind) > 1:
            one, other, *_ = map(given, by_kind.values())
            raise Unjoined(f"one branch returns {one}, another {other}")
        variable = Phi(dict(nodes))
        block.variables.append(variable)
        self._varying.append(block)
        for before in block.before:
            seen = {each: node for each, node in nodes.items() if each in before.passes}
            if not seen:
                raise Unjoined(f"one branch has no value that corresponds to {_given_by(nodes)}")
            variable.values[before] = self._place(seen, before)
        return variable


def _last_pass(home: Block, each: Pass, block: Block) -> int:
    """The segment in which a block was last passed before a pass of another."""
    path, segment = each
    begin = block.passes[each][0]
    return max(
        number
        for (other, number), (first, _) in home.passes.items()
        if other is path and (number < segment or (number == segment and (home is block or first <= begin)))
    )


def _passes_before(nodes: Mapping[Pass, Node], before: Block) -> Mapping[Pass, Node]:
    """The same nodes for the passes of the only block before one."""
    if not before.decides:
        return nodes
    return {(path, segment - 1): node for (path, segment), node in nodes.items()}


def _as_variable_of_python(nodes: Mapping[Pass, Node], block: Block) -> Mapping[Pass, Node] | None:
    """The nodes in all passes of a decision, where variables of Python's hold those that are known; else None.

    Raises:
        Unjoined: Several variables hold them, and differ in other passes.
    """
    held = {each: held_at(*each) for each in block.passes}
    found = [
        {each: values[index] for each, values in held.items()}
        for index in range(min(map(len, held.values())))
        if all(held[each][index] is node for each, node in nodes.items())
    ]
    if any(each != found[0] for each in found[1:]):
        raise Unjoined(f"several variables contain {_given_by(nodes)}, but different values in another branch")
    return found[0] if found else None


def _kind(node: Node) -> Any:
    value = node.meta.get("val")
    return (value.dtype, value.dim()) if isinstance(value, torch.Tensor) else type(value)


def _given_by(nodes: Mapping[Pass, Node]) -> str:
    return given(next(iter(nodes.values())))


def _operator(node: Node, path: ExecutionPath) -> Any:
    return node.op, node.target if node.op == "call_function" else _identity(node, path)


def _identity(node: Node, path: ExecutionPath) -> Any:
    """What an input, a weight or a body is."""
    if node.op == "placeholder":
        weight = path.graph.weights.get(node)
        if weight is None:
            return "input", path.input_name(node)
        if weight.kind != "constant":
            return "weight", id(weight.tensor)
        return "constant", weight.tensor.dtype, tuple(weight.tensor.shape), repr(weight.tensor.tolist())
    return "body", str(getattr(path.graph.module, str(node.target)).graph)
