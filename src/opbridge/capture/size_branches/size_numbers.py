"""Expressions of sizes, as conditions have them, as nodes of a graph."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

from opbridge.base.torch_private import torch_proxies, torch_sizes
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["NotJoined", "SizeNumbers"]


class NotJoined(Exception):
    """Several captures do not become one graph; the message says why."""


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "max": torch.sym_max,
    "Max": torch.sym_max,
    "min": torch.sym_min,
    "Min": torch.sym_min,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
}
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
        try:
            tree = ast.parse(expression, mode="eval").body
        except SyntaxError:
            raise NotJoined(f"{expression} is no expression") from None
        return self._of(tree)

    def _of(self, tree: ast.expr) -> Any:
        key = ast.dump(tree)
        if key not in self._made:
            self._made[key] = self._new(tree)
        return self._made[key]

    def _new(self, tree: ast.expr) -> Any:
        if isinstance(tree, ast.Constant) and type(tree.value) in (int, bool):
            return tree.value
        if isinstance(tree, ast.Name):
            if tree.id in ("True", "False"):
                return tree.id == "True"
            return self._size(tree.id)
        if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
            return self.call(_BINARY[type(tree.op)], self._of(tree.left), self._of(tree.right))
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            return self.call(operator.neg, self._of(tree.operand))
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return self.call(torch.sym_not, self._of(tree.operand))
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARISONS:
            return self.call(_COMPARISONS[type(tree.ops[0])], self._of(tree.left), self._of(tree.comparators[0]))
        if isinstance(tree, ast.BoolOp):
            joined = operator.and_ if isinstance(tree.op, ast.And) else operator.or_
            found, *others = map(self._of, tree.values)
            for other in others:
                found = self.call(joined, found, other)
            return found
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            return self._called(tree.func.id, tree.args)
        raise NotJoined(f"{ast.unparse(tree)} has no operator")

    def _called(self, name: str, args: list[ast.expr]) -> Any:
        if name == "abs" and len(args) == 1:
            return self.call(operator.abs, self._of(args[0]))
        if name not in _FUNCTIONS or not args:
            raise NotJoined(f"{name} has no operator")
        found, *others = map(self._of, args)
        for other in others:
            found = self.call(_FUNCTIONS[name], found, other)
        return found

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
