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

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.own_faults import raise_own_fault
from opbridge.capture.control_flow.blocks import Block
from opbridge.capture.control_flow.branch_oracle import BranchOracle, LoopsSummarized, PathsRefused
from opbridge.capture.control_flow.cfg import ControlFlowGraph
from opbridge.capture.control_flow.execution_path import ExecutionPath
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.control_flow.merge_points import Edge, MergePoint, Unjoined
from opbridge.capture.control_flow.path_tree import PathTree
from opbridge.capture.guards.conditions import Conditions, negated, only_where, unnegated
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.guards.samples import Range
from opbridge.capture.guards.trial_sizes import Sizes, TrialSizes
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.size_branches.joining import told
from opbridge.capture.size_branches.path_conditions import PathConditions
from opbridge.capture.size_branches.running_sizes import RunningSizes
from opbridge.graph.captured_graph import CapturedGraph, SizeCondition

__all__ = ["PathJoining", "PathRuns", "SizePath"]

_PART = 2
"""Of the captures that the limits allow, one in so many may be one for other sizes."""

_MOST_TRIED = 24
_MOST_FAILED = 4
_MOST_AGAIN = 4
_COMPARED = 8


@dataclasses.dataclass(frozen=True)
class SizePath:
    """A capture for some sizes.

    Attributes:
        graph: What it recorded, without in-place operators.
        further: What taking its in-place operators out asked of the sizes.
    """

    graph: CapturedGraph
    further: Conditions


@dataclasses.dataclass(frozen=True)
class PathRuns:
    """How a model is captured.

    Attributes:
        module: The model.
        capture: Captures it for sizes, with answers; raises what the capture raises.
        merge: Captures what runs in the place of the model.
        may_run: Whether the model runs for sizes.
        agrees: Whether a graph gives for sizes what the model gives.
    """

    module: torch.nn.Module
    capture: Callable[[Sizes, BranchOracle], SizePath]
    merge: Callable[[CFGLowering], CapturedGraph]
    may_run: Callable[[Sizes], bool]
    agrees: Callable[[CapturedGraph, Sizes], bool]


class _AskedAlike(Exception):
    """Operators ask for the same block what has several answers there.

    Args:
        expressions: What they ask.
    """

    def __init__(self, expressions: frozenset[str]) -> None:
        super().__init__(", ".join(expressions))
        self.expressions = expressions


class PathJoining:
    """The paths of a model that decides by sizes.

    Args:
        runs: How it is captured.
        example: The sizes of the example, by symbol.
        ranges: The smallest and the largest value of each.
        limits: How many captures there may be.
    """

    def __init__(self, runs: PathRuns, example: Sizes, ranges: Mapping[str, Range], limits: CaptureLimits) -> None:
        self._runs, self._example, self._ranges, self._limits = runs, example, ranges, limits
        self._of_operators: frozenset[str] = frozenset()
        self._made = 0

    def graph(self) -> CapturedGraph | None:
        """The graph of all paths; None where they do not become one, or where there are too many."""
        for _ in range(_MOST_AGAIN):
            try:
                return self._graph()
            except _AskedAlike as error:
                if error.expressions <= self._of_operators:
                    return None
                self._of_operators |= error.expressions
            except Exception as error:  # paths that do not join, or whatever torch raises where all of them run as one
                raise_own_fault(error)
                return None
        return None

    def _graph(self) -> CapturedGraph | None:
        self._paths = PathTree(joined=True)
        self._asked: dict[MergePoint, SizeCondition] = {}
        self._sizes: dict[ExecutionPath, Sizes] = {}
        self._path_conditions: dict[ExecutionPath, PathConditions] = {}
        self._further: dict[ExecutionPath, Conditions] = {}
        self._tried: list[Sizes] = []
        self._failed = 0
        self._pool_of: tuple[int, list[tuple[Sizes, bool]]] = (-1, [])
        self._broken: set[str] = set()
        next_sizes: Sizes | None = self._example
        while next_sizes is not None:
            if not self._explore(next_sizes) or len(self._sizes) < 2:
                return None
            flow = ControlFlowGraph(self._paths, of_sizes=True)
            if flow.loops:
                return None
            conditions = self._all_conditions(flow)
            next_sizes = self._beyond(conditions)
        if not all(holds_at(each.expression, sizes) for each in conditions for sizes in self._sizes.values()):
            return None
        first = next(iter(self._sizes))
        sizes = RunningSizes(self._sizes, self._told)
        graph = self._runs.merge(CFGLowering(flow, first.graph.structure, sizes))
        graph.conditions = conditions
        graph.zeros = {symbol: stack for path in self._sizes for symbol, stack in path.graph.zeros.items()}
        graph.branch_sizes = tuple(self._sizes.values())
        for symbol in self._example:
            graph.ranges[symbol] = 0, self._ranges[symbol][1]
        return graph if self._is_model(graph) else None

    def _explore(self, first: Sizes) -> bool:
        """Captures the model for some sizes, and for those of all paths; false where there are too many."""
        sizes: Sizes | None = first
        while sizes is not None:
            if self._limits.why_reached(_PART * self._made) or self._failed > _MOST_FAILED:
                return False
            if not self._capture(sizes) and sizes == self._example:
                return False
            ControlFlowGraph(self._paths, of_sizes=True)  # raises an error as soon as paths do not join
            sizes = self._untried()
        return True

    def _capture(self, sizes: Sizes) -> bool:
        """Captures the model for sizes; false where that fails."""
        self._tried.append(sizes)
        self._made += 1
        asked = PathConditions(self._example.keys(), self._of_operators)
        answers = BranchOracle(self._runs.module, _refuse_data, sizes=asked)
        try:
            made = self._runs.capture(sizes, answers)
        except (Exception, LoopsSummarized):  # whatever the model or torch raises for these sizes
            self._failed += 1
            return False
        finally:
            self._limits.count()
        if any(dict(made.graph.places) != dict(path.graph.places) for path in self._sizes):
            raise Unjoined("the named dimensions differ between branches")
        events = tuple(answers.events)
        path = ExecutionPath.of(made.graph, events, of_sizes=True)
        self._sizes[path], self._path_conditions[path], self._further[path] = sizes, asked, made.further
        self._paths.add(events, path)
        for event, condition in zip(events, asked.decisions, strict=True):
            self._asked[self._paths.points[event.place]] = condition
        return True

    def _followed(self, sizes: Sizes) -> tuple[list[Edge], bool]:
        """The answers that sizes give, as far as is known, and whether no path has given one of them.

        Where what follows an answer is not known, what follows the other one is taken for it.
        """
        edge: Edge = (None, False)
        found: list[Edge] = []
        is_new = False
        while True:
            point = self._paths.next.get(edge)
            if point is None:
                is_new = True
                point = self._paths.next.get((edge[0], not edge[1]))
            if point is None or point is self._paths.end or any(point is each for each, _ in found):
                return found, is_new
            edge = point, holds_at(self._asked[point].expression, sizes)
            found.append(edge)

    def _untried(self) -> Sizes | None:
        """Sizes that show something new, for which the model runs; None where none are found."""
        together = self._paths.are_together
        scored = []
        for sizes, is_near in self._pool():
            followed, is_new = self._followed(sizes)
            pairs = sum(not together(one, two) for i, one in enumerate(followed) for two in followed[i + 1 :])
            if is_new or pairs:
                scored.append(((is_new, pairs, -sum(sizes.values())), is_near, sizes))
        scored.sort(key=lambda each: each[0], reverse=True)
        near = [each for _, is_near, each in scored if is_near]
        every = [each for _, _, each in scored]
        candidates = [each for pair in zip(every, near, strict=False) for each in pair] + every
        left = [each for each in candidates if each not in self._tried][: 2 * _MOST_TRIED]
        return next((each for each in left[:_MOST_TRIED] if self._runs.may_run(each)), None)

    def _beyond(self, conditions: Conditions) -> Sizes | None:
        """Sizes for which the model runs and operators are answered otherwise than so far; None where none are found.

        So it is with whether a batch has one image, which a view asks.
        """
        for condition in conditions:
            if condition.expression in self._broken or not self._example.keys() >= set(condition.symbols):
                continue
            self._broken.add(condition.expression)
            breaking = [sizes for sizes, _ in self._pool() if not holds_at(condition.expression, sizes)]
            untried = [sizes for sizes in breaking if sizes not in self._tried][:_MOST_TRIED]
            if (found := next((each for each in untried if self._runs.may_run(each)), None)) is not None:
                return found
        return None

    def _pool(self) -> list[tuple[Sizes, bool]]:
        """Sizes that may show something, and whether they differ from those of the example in one size alone."""
        if self._pool_of[0] != len(self._asked):
            trial = TrialSizes(self._example, self._ranges, self._asked.values())
            pool = [(each, True) for each in trial.beside()] + [(each, False) for each in trial.mixed()]
            self._pool_of = len(self._asked), pool
        return self._pool_of[1]

    def _all_conditions(self, flow: ControlFlowGraph) -> Conditions:
        """What has to hold of the sizes: what operators ask where they run, and the answers that no path has given.

        A condition that has both answers where it is asked does not matter if the same operators give the same shapes
        after each.

        Raises:
            _AskedAlike: What an operator asks has both answers where it runs, and the shapes differ.
        """
        found: dict[str, SizeCondition] = {}
        several: set[str] = set()
        needed: dict[tuple[Block, str], tuple[SizeCondition, tuple[SizeCondition, ...]]] = {}
        for path in self._sizes:
            own = [(segment, each) for (segment, _), each in self._path_conditions[path].conditions.items()]
            for segment, condition in (*own, *((0, each) for each in self._further[path])):
                block = _home(flow, path, segment)
                needed[block, condition.expression] = condition, self._before(flow, block)
        for (block, _), (condition, before) in needed.items():
            if any(not holds_at(condition.expression, self._sizes[path]) for path, _ in block.passes):
                if _has_same_shapes(block):
                    continue  # as with what is asked of strides, which no operator of ONNX has
                several.add(unnegated(condition))
            elif limited := only_where(before, condition, self._ranges):
                found[limited.expression] = limited
        if several:
            raise _AskedAlike(frozenset(several))
        given = {edge for sizes, _ in self._pool() for edge in self._followed(sizes)[0]}
        for block in flow.blocks:
            if block.decides and len(block.after) == 1:
                ((answer, _),) = block.after.items()
                asked = self._condition_of(block)
                if (self._point(block), not answer) not in given:
                    continue  # the answers before it leave it no other one
                required = asked if answer else negated(asked)
                if limited := only_where(self._before(flow, block), required, self._ranges):
                    found[limited.expression] = limited
        for path in self._sizes:
            for symbol, stack in path.graph.zeros.items():
                if symbol in self._example:
                    found.setdefault(f"{symbol} >= 1", SizeCondition(f"{symbol} >= 1", (symbol,), stack))
        return tuple(found.values())

    def _before(self, flow: ControlFlowGraph, block: Block) -> tuple[SizeCondition, ...]:
        """What holds of the sizes wherever a block runs."""
        above = flow.dominators(block)
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
        return self._path_conditions[path].decisions[segment]

    def _point(self, block: Block) -> MergePoint:
        """The decision of a block."""
        path, segment = next(iter(block.passes))
        return self._paths.points[path.events[segment].place]

    def _told(self, block: Block) -> str:
        path, _ = next(iter(block.passes))
        return told(self._condition_of(block).expression, path.graph.places)

    def _is_model(self, graph: CapturedGraph) -> bool:
        """Whether the graph gives what the model gives, for the sizes of each path, and some others."""
        if not all(self._runs.agrees(graph, sizes) for sizes in self._sizes.values()):
            return False
        others = [sizes for sizes, _ in self._pool() if sizes not in self._tried]
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


def _refuse_data(*args: Any) -> bool:
    raise PathsRefused("The model also has data-dependent control flow.")


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
