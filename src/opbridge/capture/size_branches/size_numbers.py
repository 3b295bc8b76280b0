"""Expressions of sizes, as conditions have them, as nodes of a graph."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

from opbridge.base.torch_private import torch_proxies, torch_sizes
from opbridge.capture.guards.expressions import Constant, Expression, Operation, Symbol, parsed, written
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["NotJoined", "SizeNumbers"]


class NotJoined(Exception):
    """Several captures do not become one graph; the message says why."""


_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "neg": operator.neg,
    "abs": operator.abs,
    "not": torch.sym_not,
    "and": operator.and_,
    "or": operator.or_,
    "max": torch.sym_max,
    "min": torch.sym_min,
}
_DIVIDING = frozenset({"//", "%"})
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class SizeNumbers:
    """Makes nodes of expressions over the sizes of a graph's inputs.

    Args:
        graph: The graph, which the nodes are added to.
        captured: The capture whose inputs it has, in its own nodes.
        places: The nodes of the graph that stand for those.
    """

    def __init__(self, graph: Graph, captured: CapturedGraph, places: Mapping[Node, Node]) -> None:
        self._graph = graph
        self._symbols: dict[str, tuple[Node, int | None, Any]] = {}
        self._made: dict[str, Any] = {}
        for leaf in captured.inputs:
            value = None if leaf.node is None else leaf.node.meta.get("val")
            if leaf.node is None:
                continue
            if isinstance(value, torch.SymInt) and torch_sizes.is_symbol(value):
                self._symbols.setdefault(str(value), (places[leaf.node], None, value))
            for index, size in enumerate(value.shape) if isinstance(value, torch.Tensor) else ():
                if torch_sizes.is_symbol(size):
                    self._symbols.setdefault(str(size), (places[leaf.node], index, size))

    def of(self, expression: str) -> Any:
        """The node of an expression, or its value where that is known.

        Raises:
            NotJoined: It has a symbol that is no size of an input, or a function that has no operator.
        """
        tree = parsed(expression)
        if tree is None:
            raise NotJoined(f"{expression} is no expression")
        return self._of(tree)

    def _of(self, tree: Expression) -> Any:
        key = repr(tree)  # which tells 1 from True
        if key not in self._made:
            self._made[key] = self._new(tree)
        return self._made[key]

    def _new(self, tree: Expression) -> Any:
        if isinstance(tree, Symbol):
            return self._size(tree.name)
        if isinstance(tree, Constant) and not isinstance(tree.value, float):
            return tree.value
        if not isinstance(tree, Operation) or tree.name not in _OPERATORS:
            raise NotJoined(f"{written(tree)} has no operator")
        function, operands = _OPERATORS[tree.name], list(map(self._of, tree.operands))
        if tree.name in _DIVIDING and isinstance(operands[1], Node):
            operands[1] = self._not_zero(operands[1])
        if len(operands) < 3:
            return self.call(function, *operands)
        return functools.reduce(functools.partial(self.call, function), operands)

    def _not_zero(self, divisor: Node) -> Any:
        """A divisor, or 1 where it is 0: a condition of one capture is computed for all sizes, and runtimes crash."""
        instead = self.call(torch.sym_max, self.call(operator.sub, 1, self.call(operator.abs, divisor)), 0)
        return self.call(operator.add, divisor, instead)

    def _size(self, symbol: str) -> Any:
        if symbol not in self._symbols:
            raise NotJoined(f"{symbol} is no size of an input")
        node, index, value = self._symbols[symbol]
        if index is None:
            return node
        made = self._graph.call_function(torch.ops.aten.sym_size.int, (node, index))
        made.meta["val"] = value
        return made

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """The node of an operator on numbers, or its value where that is known."""
        with torch_proxies.Disabled():
            value = function(*(each.meta["val"] if isinstance(each, Node) else each for each in args))
        if not isinstance(value, _NUMBERS):
            return value
        made = self._graph.call_function(function, args)
        made.meta["val"] = value
        return made
