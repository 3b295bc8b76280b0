"""Many conditions on sizes: paths that join again, as those of decisions that depend on data do.

1. The model is captured for the sizes of the example. Each condition on sizes is an event in the graph, and no
   condition; its answer is that of the sizes.
2. Sizes that answer a condition otherwise are looked for, as far as is known which conditions the model comes to for
   them, and the model is captured for those for which it runs; so on until each answer was given, and each two answers
   that the same sizes give.
3. The paths become one flow, as those of `control_flow` do: they join where Python is at the same line, and its
   variables hold the same. Each branch is run for sizes of a path that takes it.
4. What an operator asks of sizes to describe its result is a condition where it runs. One that has both answers there
   is a condition like others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from torch.utils import _pytree as pytree

from opbridge.base.own_faults import raise_own_fault
from opbridge.capture.control_flow.blocks import Block
from opbridge.capture.control_flow.cfg import ControlFlowGraph
from opbridge.capture.control_flow.execution_path import ExecutionPath
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.control_flow.merge_points import MergePoint
from opbridge.capture.guards.conditions import Conditions, negated, only_where, unnegated
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.guards.samples import Range
from opbridge.capture.guards.trial_sizes import Sizes
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.size_branches.explored_paths import ExploredPaths, PathRuns
from opbridge.capture.size_branches.joining import told
from opbridge.capture.size_branches.running_sizes import RunningSizes
from opbridge.graph.captured_graph import CapturedGraph, SizeCondition

__all__ = ["PathJoining"]

_MOST_AGAIN = 4
_COMPARED = 8


class _AskedAlike(Exception):
    """Operators ask for the same block what has several answers there.

    Args:
        expressions: What they ask.
    """

    def __init__(self, expressions: frozenset[str]) -> None:
        super().__init__(", ".join(expressions))
        self.expressions = expressions


class PathJoining:
    """One graph of the paths of a model that decides by sizes.

    Args:
        runs: How it is captured.
        example: The sizes of the example, by symbol.
        ranges: The smallest and the largest value of each.
        limits: How many captures there may be.
    """

    def __init__(self, runs: PathRuns, example: Sizes, ranges: Mapping[str, Range], limits: CaptureLimits) -> None:
        self._runs, self._example, self._ranges, self._limits = runs, example, ranges, limits

    def graph(self) -> CapturedGraph | None:
        """The graph of all paths; None where they do not become one, or where there are too many."""
        of_operators: frozenset[str] = frozenset()
        made = 0
        for _ in range(_MOST_AGAIN):
            paths = ExploredPaths(
                self._runs, self._example, self._ranges, self._limits, of_operators=of_operators, made=made
            )
            try:
                return self._graph(paths)
            except _AskedAlike as error:
                if error.expressions <= of_operators:
                    return None
                of_operators, made = of_operators | error.expressions, paths.made
            except Exception as error:  # paths that do not join, or whatever torch raises where all of them run as one
                raise_own_fault(error)
                return None
        return None

    def _graph(self, paths: ExploredPaths) -> CapturedGraph | None:
        broken: set[str] = set()
        next_sizes: Sizes | None = self._example
        while next_sizes is not None:
            if not paths.explore(next_sizes) or len(paths.found) < 2:
                return None
            flow = ControlFlowGraph(paths.tree, of_sizes=True)
            if flow.loops:
                return None
            demands = _Demands(paths, flow, self._example, self._ranges)
            conditions = demands.conditions()
            next_sizes = self._beyond(paths, conditions, broken)
        captured = {path: run.sizes for path, run in paths.found.items()}
        if not all(holds_at(each.expression, sizes) for each in conditions for sizes in captured.values()):
            return None
        first = next(iter(captured))
        graph = self._runs.merge(CFGLowering(flow, first.graph.structure, RunningSizes(captured, demands.told)))
        graph.conditions = conditions
        graph.zeros = {symbol: stack for path in captured for symbol, stack in path.graph.zeros.items()}
        graph.branch_sizes = tuple(captured.values())
        for symbol in self._example:
            graph.ranges[symbol] = 0, self._ranges[symbol][1]
        return graph if self._is_model(graph, paths) else None

    def _beyond(self, paths: ExploredPaths, conditions: Conditions, broken: set[str]) -> Sizes | None:
        """Sizes for which the model runs and operators are answered otherwise than so far; None where none are found.

        So it is with whether a batch has one image, which a view asks.

        Args:
            paths: The paths so far.
            conditions: What operators ask.
            broken: The conditions for which such sizes have been looked for; gets further ones.
        """
        for condition in conditions:
            if condition.expression in broken or not self._example.keys() >= set(condition.symbols):
                continue
            broken.add(condition.expression)
            if (found := paths.first_without(condition)) is not None:
                return found
        return None

    def _is_model(self, graph: CapturedGraph, paths: ExploredPaths) -> bool:
        """Whether the graph gives what the model gives, for the sizes of each path, and some others."""
        if not all(self._runs.agrees(graph, run.sizes) for run in paths.found.values()):
            return False
        others = paths.untried()
        random.Random(1).shuffle(others)
        compared = 0
        for sizes in others[: 4 * _COMPARED]:
            holds = all(holds_at(each.expression, sizes) for each in graph.conditions)
            if holds and self._runs.may_run(sizes):
                if not self._runs.agrees(graph, sizes):
                    return False
                compared += 1
            if compared == _COMPARED:
                break
        return True


class _Demands:
    """What the paths of a flow demand of the sizes.

    Args:
        paths: The paths.
        flow: The flow.
        example: The sizes of the example, by symbol.
        ranges: The smallest and the largest value of each.
    """

    def __init__(
        self, paths: ExploredPaths, flow: ControlFlowGraph, example: Sizes, ranges: Mapping[str, Range]
    ) -> None:
        self._paths, self._flow, self._example, self._ranges = paths, flow, example, ranges

    def conditions(self) -> Conditions:
        """What has to hold of the sizes: what operators ask where they run, and the answers that no path has given.

        A condition that has both answers where it is asked does not matter if the same operators give the same shapes
        after each.

        Raises:
            _AskedAlike: What an operator asks has both answers where it runs, and the shapes differ.
        """
        found: dict[str, SizeCondition] = {}
        several: set[str] = set()
        needed: dict[tuple[Block, str], tuple[SizeCondition, tuple[SizeCondition, ...]]] = {}
        flow = self._flow
        for path, run in self._paths.found.items():
            own = [(segment, each) for (segment, _), each in run.asked.conditions.items()]
            for segment, condition in (*own, *((0, each) for each in run.further)):
                block = _home(flow, path, segment)
                needed[block, condition.expression] = condition, self._before(block)
        for (block, _), (condition, before) in needed.items():
            if any(not holds_at(condition.expression, self._paths.found[path].sizes) for path, _ in block.passes):
                if _has_same_shapes(block):
                    continue  # as with what is asked of strides, which no operator of ONNX has
                several.add(unnegated(condition))
            elif limited := only_where(before, condition, self._ranges):
                found[limited.expression] = limited
        if several:
            raise _AskedAlike(frozenset(several))
        given = self._paths.given()
        for block in flow.blocks:
            if block.decides and len(block.after) == 1:
                ((answer, _),) = block.after.items()
                asked = self._condition_of(block)
                if (self._point(block), not answer) not in given:
                    continue  # the answers before it leave it no other one
                required = asked if answer else negated(asked)
                if limited := only_where(self._before(block), required, self._ranges):
                    found[limited.expression] = limited
        for path in self._paths.found:
            for symbol, stack in path.graph.zeros.items():
                if symbol in self._example:
                    found.setdefault(f"{symbol} >= 1", SizeCondition(f"{symbol} >= 1", (symbol,), stack))
        return tuple(found.values())

    def _before(self, block: Block) -> tuple[SizeCondition, ...]:
        """What holds of the sizes wherever a block runs."""
        above = self._flow.dominators(block)
        found = []
        for each in above:
            if each.decides and len(each.after) == 2:
                answers = [answer for answer, after in each.after.items() if after in above]
                if len(answers) == 1:
                    asked = self._condition_of(each)
                    found.append(asked if answers[0] else negated(asked))
        return tuple(found)

    def _condition_of(self, block: Block) -> SizeCondition:
        """What a block asks."""
        path, segment = next(iter(block.passes))
        return self._paths.found[path].asked.decisions[segment]

    def _point(self, block: Block) -> MergePoint:
        """The decision of a block."""
        path, segment = next(iter(block.passes))
        return self._paths.tree.points[path.events[segment].place]

    def told(self, block: Block) -> str:
        """What a block asks, in words."""
        path, _ = next(iter(block.passes))
        return told(self._condition_of(block).expression, path.graph.places)


def _home(flow: ControlFlowGraph, path: ExecutionPath, segment: int) -> Block:
    """A block that runs whenever the operators of a segment do: theirs, or the common end that they may be in."""
    block = next(
        each
        for each in flow.blocks
        if (path, segment) in each.passes and not each.decides and each is not flow.end and not each.is_common_end
    )
    while block.after and next(iter(block.after.values())).is_common_end and len(block.after) == 1:
        block = next(iter(block.after.values()))
    return block


def _has_same_shapes(block: Block) -> bool:
    """Whether the operators of a block give the same shapes in all paths through it."""
    shapes = [
        [
            [str(tuple(each.shape)) for each in pytree.tree_leaves(node.meta.get("val")) if hasattr(each, "shape")]
            for node in block.nodes(each)
        ]
        for each in block.passes
    ]
    return all(each == shapes[0] for each in shapes)
