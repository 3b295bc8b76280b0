"""Lists that a loop fills by index, `found = [None] * n` before `found[i] = value`, as lists that it appends to.

A loop that appends has any number of iterations; see `append_only_lists`. The two are the same where

1. `i` counts the iterations from 0, in `for i in range(m)` or `for i, each in enumerate(values)`;
2. nothing reads the list between the two but its length, and the loop does nothing with it but write the element of
   its iteration;
3. no `break` leaves the loop.

An iteration that writes no element, as after `continue`, leaves the one that the list was made of. After the loop the
list has to have as many elements as it was made with; see `check_filled`.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

import torch

from opbridge.base.python_private.syntax import bodies, outside_loops
from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.loop_filled_lists import grown_length

__all__ = ["FILLED", "append_instead", "check_filled"]

FILLED = "__opbridge_filled__"
"""The name of `check_filled` among the globals of a function."""

_OF_ITS_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_Loop = ast.For | ast.AsyncFor | ast.While


def check_filled(values: list[Any], count: Any, default: Any) -> None:
    """Has a list as many elements as it was made with.

    Args:
        values: The list, to which a loop has appended.
        count: How many elements it was made with.
        default: Each of these.

    Raises:
        IndexError: The loop has written more.
    """
    grown = grown_length(values)
    length = len(values) if grown is None else grown
    if torch_sizes.is_equal(length, count):
        return
    if type(length) is int and type(count) is int:
        if length > count:
            raise IndexError("list assignment index out of range")
        values.extend([default] * (count - length))
        return
    torch._check(length == count, lambda: "a loop fills as many elements of a list as there are")


def append_instead(body: list[ast.stmt]) -> int:
    """Has loops append to lists that they fill by index, in statements and those within, and says how many do.

    Args:
        body: The statements, which are changed.
    """
    count = 0
    for made in list(body):
        count += sum(append_instead(inner) for inner in bodies(made))
        found = _repeated(made)
        if found is None:
            continue
        name = found[0]
        after = body[body.index(made) + 1 :]
        loop = next((each for each in after if _uses(each, name) > _lengths(each, name)), None)
        if isinstance(loop, ast.For) and _fills(loop, name):
            _append(body, made, found, loop)
            count += 1
    return count


def _append(body: list[ast.stmt], made: ast.stmt, repeated: tuple[str, ast.expr, ast.expr], loop: ast.For) -> None:
    """Has a loop append to a list that it fills by index.

    Args:
        body: The statements that both are among.
        made: The statement that makes the list.
        repeated: See `_repeated`.
        loop: The loop.
    """
    name, default, times = repeated
    suffix = f"{made.lineno}_{made.col_offset}__"
    of_default, of_count, of_value = (f"__opbridge_{part}_{suffix}" for part in ("default", "count", "value"))
    counter = _counter(loop)
    append = ast.Expr(ast.Call(ast.Attribute(_read(name), "append", ast.Load()), [_read(of_value)], []))
    asking = _Lengths(name, of_count)
    loop.iter = asking.visit(loop.iter)
    for each in body[body.index(made) + 1 : body.index(loop)]:
        asking.visit(each)
    for each in loop.body:
        _Elements(name, counter, of_value).visit(each)
    _before_continue(loop.body, append)
    loop.body[:] = [_assigned(of_value, _read(of_default)), *loop.body, append]
    begin = [_assigned(of_default, default), _assigned(of_count, times), _assigned(name, ast.List([], ast.Load()))]
    arguments: list[ast.expr] = [_read(name), _read(of_count), _read(of_default)]
    check = _at(loop, ast.Expr(ast.Call(_read(FILLED), arguments, [])))
    body.insert(body.index(loop) + 1, check)
    at = body.index(made)
    body[at : at + 1] = [_at(made, each) for each in begin]
    ast.fix_missing_locations(loop)


def _repeated(statement: ast.stmt) -> tuple[str, ast.expr, ast.expr] | None:
    """The name of a list, what it is made of, and how often, of `name = [value] * times`; None for anything else."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.Mult()) as value):
            pass
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.BinOp(op=ast.Mult()) as value):
            pass
        case _:
            return None
    for one, times in ((value.left, value.right), (value.right, value.left)):
        if isinstance(one, ast.List) and len(one.elts) == 1 and not isinstance(one.elts[0], ast.Starred):
            return name, one.elts[0], times
    return None


def _counter(loop: ast.For) -> str:
    """The variable that counts the iterations of a loop from 0; "" where there is none."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[_], keywords=[])):
            return name
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=name), *_]),
            iter=ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]),
        ):
            return name
    return ""


def _fills(loop: ast.For, name: str) -> bool:
    """Whether a loop does nothing with a list but write the element of its iteration."""
    counter = _counter(loop)
    inside = (each for statement in loop.body for each in outside_loops(statement))
    if not counter or loop.orelse or any(isinstance(each, ast.Break) for each in inside):
        return False
    if _uses(loop.iter, name) > _lengths(loop.iter, name):
        return False
    written = 0
    for each in (each for statement in loop.body for each in ast.walk(statement)):
        if isinstance(each, ast.Global | ast.Nonlocal) or (isinstance(each, _OF_ITS_OWN) and _uses(each, name)):
            return False
        if isinstance(each, ast.AugAssign) and _is_element(each.target, name, counter):
            return False
        if isinstance(each, ast.Name) and each.id == counter and not isinstance(each.ctx, ast.Load):
            return False
        written += _is_element(each, name, counter)
    return 0 < written == sum(_uses(statement, name) for statement in loop.body)


def _uses(node: ast.AST, name: str) -> int:
    """How often a name stands in some code."""
    return sum(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def _lengths(node: ast.AST, name: str) -> int:
    """How often some code asks for the length of a list."""
    return sum(_is_length(each, name) for each in ast.walk(node))


def _is_element(node: ast.AST, name: str, counter: str) -> bool:
    """Whether an element of a list is written, whose index is a variable."""
    match node:
        case ast.Subscript(value=ast.Name(id=found), slice=ast.Name(id=index), ctx=ast.Store()):
            return (found, index) == (name, counter)
    return False


def _is_length(node: ast.AST, name: str) -> bool:
    """Whether a node is `len(name)`."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=found)], keywords=[]):
            return found == name
    return False


def _before_continue(body: list[ast.stmt], statement: ast.stmt) -> None:
    """Puts a statement before each `continue` of a loop."""
    for each in list(body):
        if isinstance(each, ast.Continue):
            body.insert(body.index(each), _at(each, copy.deepcopy(statement)))
        elif isinstance(each, _Loop):
            _before_continue(each.orelse, statement)
        elif not isinstance(each, _OF_ITS_OWN):
            for inner in bodies(each):
                _before_continue(inner, statement)


class _Elements(ast.NodeTransformer):
    """Puts a variable in the place of the element of a list that is written.

    Args:
        name: The name of the list.
        counter: The index of the element.
        value: The variable.
    """

    def __init__(self, name: str, counter: str, value: str) -> None:
        self._name, self._counter, self._value = name, counter, value

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if _is_element(node, self._name, self._counter):
            return ast.copy_location(ast.Name(self._value, ast.Store()), node)
        return self.generic_visit(node)


class _Lengths(ast.NodeTransformer):
    """Puts a variable in the place of the length of a list.

    Args:
        name: The name of the list.
        count: The variable.
    """

    def __init__(self, name: str, count: str) -> None:
        self._name, self._count = name, count

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_length(node, self._name):
            return ast.copy_location(_read(self._count), node)
        return self.generic_visit(node)


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assigned(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _at(node: ast.AST, made: ast.stmt) -> ast.stmt:
    """A statement at the place of a node in the source, where its parts have none."""
    return ast.fix_missing_locations(ast.copy_location(made, node))
