"""Loops that fill a list up to a size, `while len(found) < x.shape[0] - 1:`, as `for` loops over a range.

A `while` loop asks a question about sizes before each iteration, and has as many iterations as in the example. A loop
over a range has any number of them; see `symbolic_loops`. The two are the same where

1. the condition is that a list is shorter than sizes of tensors say, which the loop assigns nothing to;
2. each iteration appends one element to the list, and does nothing else with it but ask for its length or an element.

The length of the list is the number of the iteration then, also where the loop asks for it.
"""

from __future__ import annotations

import ast

from opbridge.base.python_private.syntax import outside_loops

__all__ = ["as_for_loop"]

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
_RESIZING = frozenset({"resize_", "resize_as_", "set_"})
_OF_ITS_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def as_for_loop(loop: ast.While) -> ast.For | None:
    """The loop over a range in the place of a loop; None for one that may do something else."""
    match loop.test:
        case ast.Compare(left=ast.Call() as count, ops=[ast.Lt()], comparators=[bound]):
            name = _counted(count)
        case _:
            return None
    if name is None or not _is_of_sizes(bound) or not any(isinstance(each, ast.Name) for each in ast.walk(bound)):
        return None
    tensors = {each.id for each in ast.walk(bound) if isinstance(each, ast.Name)}
    places = [place for place, each in enumerate(loop.body) if _appended(each, name)]
    if len(places) != 1 or _may_change(loop.body, tensors) or _may_continue(loop.body):
        return None
    number = f"__opbridge_iteration_{loop.lineno}_{loop.col_offset}__"
    body: list[ast.stmt] = []
    for place, statement in enumerate(loop.body):
        put = _Counts(name, number, 1 if place > places[0] else 0)
        body.append(put.visit(statement))
        if put.others != (1 if place == places[0] else 0):
            return None
    span = ast.Call(ast.Name("range", ast.Load()), [count, bound], [])
    found = ast.For(ast.Name(number, ast.Store()), span, body, loop.orelse)
    return ast.fix_missing_locations(ast.copy_location(found, loop))


def _counted(node: ast.expr) -> str | None:
    """The name of a list whose length is asked for."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]):
            return name
    return None


def _is_of_sizes(node: ast.expr) -> bool:
    """Whether an expression consists of numbers and sizes of tensors: `x.shape[0]`, `x.size(0)`."""
    match node:
        case ast.Constant(value=int()):
            return True
        case ast.BinOp(left=left, op=operation, right=right):
            return isinstance(operation, _ARITHMETIC) and _is_of_sizes(left) and _is_of_sizes(right)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=index):
            return _is_number(index)
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="size"), args=[index], keywords=[]):
            return _is_number(index)
    return False


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _appended(statement: ast.stmt, name: str) -> bool:
    """Whether a statement appends one element to a list."""
    match statement:
        case ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr="append"), args=[_], keywords=[])):
            return found == name
        case ast.AugAssign(target=ast.Name(id=found), op=ast.Add(), value=ast.List(elts=[element])):
            return found == name and not isinstance(element, ast.Starred)
    return False


def _may_change(body: list[ast.stmt], tensors: set[str]) -> bool:
    """Whether statements may assign to any of some names, or change the sizes of a tensor."""
    for each in (each for statement in body for each in ast.walk(statement)):
        if isinstance(each, ast.Name) and each.id in tensors and not isinstance(each.ctx, ast.Load):
            return True
        if isinstance(each, ast.Attribute) and each.attr in _RESIZING:
            return True
        if isinstance(each, (ast.Global, ast.Nonlocal, *_OF_ITS_OWN)):
            return True
    return False


def _may_continue(body: list[ast.stmt]) -> bool:
    """Whether the loop may begin its next iteration before the end of the body."""
    return any(isinstance(each, ast.Continue) for statement in body for each in outside_loops(statement))


class _Counts(ast.NodeTransformer):
    """Puts the number of the iteration in the place of the length of a list.

    Args:
        name: The name of the list.
        number: The name of the number.
        more: What is added to it.

    Attributes:
        others: How often the name stands for something else than that length, or an element that is read.
    """

    def __init__(self, name: str, number: str, more: int) -> None:
        self._name, self._number, self._more = name, number, more
        self.others = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _counted(node) != self._name:
            return self.generic_visit(node)
        number: ast.expr = ast.Name(self._number, ast.Load())
        found = ast.BinOp(number, ast.Add(), ast.Constant(self._more)) if self._more else number
        return ast.fix_missing_locations(ast.copy_location(found, node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        is_read = isinstance(node.value, ast.Name) and node.value.id == self._name and isinstance(node.ctx, ast.Load)
        if not is_read or isinstance(node.slice, ast.Slice):
            return self.generic_visit(node)
        node.slice = self.visit(node.slice)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.others += node.id == self._name
        return node
