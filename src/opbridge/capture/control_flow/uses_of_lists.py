"""Lines of a model that use a list which a loop has appended to, as no file does: for the text of a refusal."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Hashable, Iterator
from types import CodeType

from opbridge.base.sources import of_code

__all__ = ["advice_on_lists"]

_APPENDING = ("append", "extend")


def advice_on_lists(places: Collection[Hashable]) -> str:
    """What to write in the place of the uses of lists that a file does not have; empty where none is known.

    Args:
        places: The places of the lists; see `LoopSummary.growth`.
    """
    names = dict.fromkeys(found for each in places if (found := _variable(each)) is not None)
    uses = [use for code, name in names for use in _uses(code, name)]
    return " ".join(dict.fromkeys(uses))


def _variable(place: Hashable) -> tuple[CodeType, str] | None:
    """The function whose variable a list is in, and the name of that."""
    if not isinstance(place, tuple) or len(place) != 3:
        return None
    loop, number, name = place
    if isinstance(loop, tuple) and isinstance(number, int) and isinstance(name, str):
        around = loop[number] if number < len(loop) and isinstance(loop[number], tuple) else loop
        code = around[0] if around is not loop or number == 0 else None
        if isinstance(code, CodeType):
            return code, name
    return None


def _uses(code: CodeType, name: str) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TypeError):  # there is no source
        return
    ends = [
        each.end_lineno or 0
        for each in ast.walk(tree)
        if isinstance(each, (ast.For, ast.While)) and any(_appends(inner, name) for inner in ast.walk(each))
    ]
    if not ends:
        return
    for each in ast.walk(tree):
        found = _advice(each, name) if getattr(each, "lineno", 0) > max(ends) else None
        line = of_code(code, code.co_firstlineno + getattr(each, "lineno", 1) - 1)
        if found is not None and line is not None:
            yield f"Write {found} at {line}."


def _appends(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.AugAssign):
        return _is(node.target, name)
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in _APPENDING and _is(function.value, name)


def _advice(node: ast.AST, name: str) -> str | None:
    """What to write in the place of a use of a list; None where the file has it, or where it is none."""
    if isinstance(node, ast.Subscript) and _is(node.value, name):
        return f"'torch.stack({name})[{ast.unparse(node.slice)}]' for '{ast.unparse(node)}'"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is(node.func.value, name):
        if node.func.attr not in _APPENDING:
            return f"a slice of 'torch.stack({name})' for what '{ast.unparse(node)}' leaves"
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and any(_is(each, name) for each in _truths(node.test)):
        return f"'len({name}) > 0' for the truth of '{name}'"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and (_is(node.left, name) or _is(node.right, name)):
        return f"'torch.cat' of 'torch.stack({name})' and the others for '{ast.unparse(node)}'"
    if isinstance(node, (ast.For, ast.comprehension)) and _is(node.iter, name):
        return f"operators on 'torch.stack({name})' for the loop over '{name}'"
    return None


def _truths(test: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose truth a condition asks for."""
    if isinstance(test, ast.BoolOp):
        for each in test.values:
            yield from _truths(each)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _truths(test.operand)
    else:
        yield test


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
