"""PyTorch's side of a Loop or a Scan: a loop of the captured graph, iteration by iteration.

What is carried into an iteration comes from running the graph of the loop's body for the iterations before it. The two
latest states are kept, so that a search runs each iteration about twice. An iteration is a graph of its own, with the
outputs of the body of the Loop or Scan that was made of it.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from torch.fx import GraphModule, Node

from opbridge.capture.functionalize import FunctionalGraph
from opbridge.graph.captured_graph import CapturedGraph, Leaf
from opbridge.graph.control_flow import CONDITION, inner_name
from opbridge.graph.operators import operator_of
from opbridge.graph.running import goes_on, run_subgraph
from opbridge.graph.values import as_tensor
from opbridge.verification import exchange
from opbridge.verification.bisection import iterations
from opbridge.verification.graph_copy import GraphCopy
from opbridge.verification.intermediate import Unusable

__all__ = ["CapturedLoop", "Iteration", "captured_loop"]


@dataclass(frozen=True)
class Iteration:
    """One iteration of a loop.

    Attributes:
        functional: Its graph, with the outputs of the body of the Loop or Scan, in order.
        leaves: The inputs of the graph.
        carried: What is carried into it, as the body of the Loop or Scan takes it.
    """

    functional: FunctionalGraph
    leaves: list[Any]
    carried: list[torch.Tensor]


@dataclass(frozen=True)
class _State:
    """A loop after some iterations: their number, and what they carry on."""

    count: int
    carried: tuple[Any, ...]


class CapturedLoop(abc.ABC):
    """A loop of a captured graph.

    Args:
        begin: What is carried into the first iteration.

    Attributes:
        most: How many iterations it has at most.
        runs: How many times some of them have run.
    """

    most: int

    def __init__(self, begin: Sequence[Any]) -> None:
        self._begin = _State(0, tuple(begin))
        self._states = [self._begin]
        self.runs = 0

    def after(self, count: int) -> dict[str, torch.Tensor]:
        """The outputs of the Loop or Scan after so many iterations, or fewer where the loop ends before.

        Raises:
            Unusable: PyTorch raises.
        """
        return {f"output {at}": as_tensor(value) for at, value in enumerate(self._outputs(self._after(count)))}

    def iteration(self, number: int) -> Iteration | None:
        """An iteration, of which 0 is the first; None where the loop ends before.

        Raises:
            Unusable: PyTorch raises.
        """
        state = self._after(number)
        with _computing():
            if state.count < number or not self._has_next(state):
                return None
        carried = [exchange.runtime_form(as_tensor(each)) for each in self._carried(state)]
        return Iteration(self._graph(), self._operands(state), carried)

    def _after(self, count: int) -> _State:
        self._states = [state for state in self._states if state.count <= count][-1:] or [self._begin]
        state = self._states[0]
        self.runs += 1
        with _computing():
            while state.count < count and self._has_next(state):
                state = self._next(state)
        if state is not self._states[0]:
            self._states.append(state)
        return state

    @abc.abstractmethod
    def _operands(self, state: _State) -> list[Any]:
        """The inputs of the next iteration."""

    @abc.abstractmethod
    def _has_next(self, state: _State) -> bool:
        """Whether there is a further iteration."""

    @abc.abstractmethod
    def _next(self, state: _State) -> _State:
        """The state after one more iteration."""

    @abc.abstractmethod
    def _carried(self, state: _State) -> Sequence[Any]:
        """What the Loop or Scan carries on."""

    @abc.abstractmethod
    def _outputs(self, state: _State) -> Sequence[Any]:
        """The outputs of the Loop or Scan."""

    @abc.abstractmethod
    def _graph(self) -> FunctionalGraph:
        """The graph of an iteration."""


class _While(CapturedLoop):
    """`while_loop`, which becomes a Loop.

    Args:
        condition: The graph of its condition.
        body: The graph of its body.
        carried: What is carried into the first iteration.
        additional: What both graphs read besides.
        kept: The positions of what the Loop carries too; the others only add rows, and are further outputs of it.
    """

    most = 1 << 62

    def __init__(
        self,
        condition: GraphModule,
        body: GraphModule,
        carried: Sequence[Any],
        additional: Sequence[Any],
        kept: Sequence[int],
    ) -> None:
        super().__init__(carried)
        self._condition, self._body, self._additional, self._kept = condition, body, list(additional), list(kept)
        self._added = {at: _added_rows(body, at) for at in range(len(carried)) if at not in self._kept}

    def _operands(self, state: _State) -> list[Any]:
        return [*state.carried, *self._additional]

    def _has_next(self, state: _State) -> bool:
        return goes_on(self._condition, self._operands(state))

    def _next(self, state: _State) -> _State:
        return _State(state.count + 1, _listed(run_subgraph(self._body, self._operands(state))))

    def _carried(self, state: _State) -> Sequence[Any]:
        return [state.carried[at] for at in self._kept]

    def _outputs(self, state: _State) -> Sequence[Any]:
        found = list(self._carried(state))
        for at, added in self._added.items():
            value, rows = state.carried[at], added.meta["val"].shape[0]
            found.append(value.reshape(value.shape[0] // rows, rows, *value.shape[1:]))
        return found

    def _graph(self) -> FunctionalGraph:
        copy = GraphCopy()
        given = _placeholders(copy, self._body)
        following = copy.put(self._body, given, str)
        operands = [*following, *given[len(following) :]]
        again = copy.put(self._condition, operands, lambda name: inner_name(CONDITION, name))
        results = list(_listed(again))
        results += [following[at] for at in self._kept]
        results += [copy.stands_for[each] for each in self._added.values()]
        return _functional(copy, given, results)


class _Scan(CapturedLoop):
    """`scan`, and `map_impl`, which carries nothing; both become a Scan.

    Args:
        combine: The graph of its body.
        carried: What is carried into the first iteration.
        sequences: What it goes over, along the first dimension.
        additional: What the graph reads besides.
    """

    def __init__(
        self, combine: GraphModule, carried: Sequence[Any], sequences: Sequence[torch.Tensor], additional: Sequence[Any]
    ) -> None:
        super().__init__(carried)
        self._combine, self._sequences, self._additional = combine, list(sequences), list(additional)
        self._rows: list[tuple[Any, ...]] = []  # what each iteration so far gives beside what it carries on
        self.most = self._sequences[0].shape[0]

    def _operands(self, state: _State) -> list[Any]:
        return [*state.carried, *(each[state.count] for each in self._sequences), *self._additional]

    def _has_next(self, state: _State) -> bool:
        return state.count < self.most

    def _next(self, state: _State) -> _State:
        results = _listed(run_subgraph(self._combine, self._operands(state)))
        count = len(state.carried)
        self._rows[state.count :] = [results[count:]]
        return _State(state.count + 1, results[:count])

    def _carried(self, state: _State) -> Sequence[Any]:
        return state.carried

    def _outputs(self, state: _State) -> Sequence[Any]:
        return [*state.carried, *map(torch.stack, zip(*self._rows[: state.count], strict=True))]

    def _graph(self) -> FunctionalGraph:
        copy = GraphCopy()
        given = _placeholders(copy, self._combine)
        return _functional(copy, given, _listed(copy.put(self._combine, given, str)))


class _AssociativeScan(_Scan):
    """`associative_scan`, which becomes a Scan that combines in order, and whose first results are what it is given.

    Args:
        combine: The graph that combines two results.
        sequences: What it goes over, along the first dimension.
        additional: What the graph reads besides.
    """

    def __init__(self, combine: GraphModule, sequences: Sequence[torch.Tensor], additional: Sequence[Any]) -> None:
        zeros = [torch.zeros_like(each[0]) if len(each) else each for each in sequences]
        super().__init__(combine, [torch.tensor(False), *zeros], sequences, additional)

    def iteration(self, number: int) -> Iteration | None:
        return super().iteration(number) if number else None  # which has no operators

    def _operands(self, state: _State) -> list[Any]:
        return super()._operands(state)[1:]

    def _next(self, state: _State) -> _State:
        operands = self._operands(state)
        count = len(self._sequences)
        results = _listed(run_subgraph(self._combine, operands)) if state.count else tuple(operands[count : 2 * count])
        self._rows[state.count :] = [results]
        return _State(state.count + 1, (torch.tensor(True), *results))

    def _graph(self) -> FunctionalGraph:
        copy = GraphCopy()
        given = _placeholders(copy, self._combine)
        results = _listed(copy.put(self._combine, given, str))
        return _functional(copy, given, [True, *results, *results])


def captured_loop(node: Node, arguments: Sequence[Any], loop: iterations.Repeated) -> CapturedLoop | None:
    """The loop of a captured graph that a Loop or Scan was made of.

    Args:
        node: The node of the captured graph.
        arguments: The values of the nodes that it reads, as `Node.all_input_nodes` has them.
        loop: The Loop or Scan.

    Returns:
        None where the node is no such operator, or the values that it carries are not those of the Loop or Scan.
    """
    operator = operator_of(node)
    given = dict(zip(node.all_input_nodes, arguments, strict=True))
    args: Any = torch.fx.node.map_arg(node.args, given.__getitem__)
    if operator == "higher_order::while_loop" and isinstance(loop, iterations.Loop):
        condition, body, carried, *rest = args
        kept = _kept(loop.node, loop.carried, len(carried))
        return None if kept is None else _While(condition, body, carried, _additional(rest), kept)
    if not isinstance(loop, iterations.Scan):
        return None
    form = loop.carried, len(loop.node.output)
    if operator in ("higher_order::scan", "higher_order::map_impl"):
        combine, *values = args
        carried, sequences, *rest = values if operator == "higher_order::scan" else [(), *values]
        outputs = len(_listed(combine.graph.output_node().args[0]))
        return _Scan(combine, carried, sequences, _additional(rest)) if form == (len(carried), outputs) else None
    if operator == "higher_order::associative_scan":
        combine, sequences, *rest = args
        is_same = form == (1 + len(sequences), 1 + 2 * len(sequences))
        return _AssociativeScan(combine, sequences, _additional(rest)) if is_same else None
    return None


def _additional(rest: Sequence[Any]) -> Sequence[Any]:
    """What a graph reads besides, from the last arguments of an operator."""
    found: Sequence[Any] = (rest[0] if rest else ()) or ()
    return found


@contextlib.contextmanager
def _computing() -> Iterator[None]:
    """Where PyTorch computes.

    Raises:
        Unusable: It raises.
    """
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    except Exception as error:  # operators raise anything
        raise Unusable(f"PyTorch could not compute an iteration: {error}") from error


def _kept(node: onnx.NodeProto, count: int, total: int) -> list[int] | None:
    """The positions among what a `while_loop` carries of what a Loop carries; None where they are not known."""
    if len(node.output) != total:
        return None
    if count == total:
        return list(range(total))
    said = {each.key: each.value.split() for each in node.metadata_props}
    carried = list(node.output)[:count]
    pairs = zip(said.get("opbridge.node", ()), said.get("opbridge.output", ()), strict=False)
    found = sorted(int(key.partition(":")[2]) for key, name in pairs if name in carried)
    return found if len(found) == count else None


def _listed(value: Any) -> tuple[Any, ...]:
    """What a graph returns, which may be one value."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _added_rows(body: GraphModule, at: int) -> Node:
    """The rows that an iteration adds to one of the values that are carried.

    Raises:
        Unusable: The body does not add rows to it.
    """
    result: Any = body.graph.output_node().args[0][at]
    while isinstance(result, Node) and result.target is torch.ops.aten.clone.default:
        result = result.args[0]
    if not isinstance(result, Node) or result.target is not torch.ops.aten.cat.default:
        raise Unusable("the loop of the file carries other values than that of the captured graph")
    parts: Any = result.args[0]
    rows: Node = parts[1]
    return rows


def _placeholders(copy: GraphCopy, body: GraphModule) -> list[Node]:
    """Placeholders as those of a subgraph."""
    found = []
    for node in body.graph.nodes:
        if node.op == "placeholder":
            new = copy.graph.placeholder(node.name)
            new.meta = dict(node.meta)
            found.append(new)
    return found


def _functional(copy: GraphCopy, given: Sequence[Node], results: Sequence[Any]) -> FunctionalGraph:
    """The graph of an iteration, with its inputs and outputs. Subgraphs write to nothing in place."""
    copy.graph.output(tuple(results))
    inputs = tuple(Leaf(each.name, each) for each in given)
    outputs = tuple(
        Leaf(f"output {at}", each) if isinstance(each, Node) else Leaf(f"output {at}", None, each)
        for at, each in enumerate(results)
    )
    return FunctionalGraph(CapturedGraph(copy.module(), inputs, outputs, {}))
