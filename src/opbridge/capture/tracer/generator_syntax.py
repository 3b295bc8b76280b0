"""Comprehensions as generators with the same meaning, in the syntax tree of a function.

The scopes of both are the same in Python, but for what looks at the function that runs:

1. A comprehension that has `await` or `async for` in it, or calls `locals` or the like, stays as it is.
2. Since Python 3.12 `super()` in a comprehension is that of the function around it. In a generator it is an error, and
   so it is written as `super(__class__, self)`.
"""

from __future__ import annotations

import ast
from types import CodeType

from opbridge.base.python_private.syntax import Function

__all__ = ["first_argument", "may_be_generator", "with_own_super"]

_READING_VARIABLES = frozenset({"locals", "vars", "dir", "eval", "exec"})
_COMPREHENSION = (lambda values: [-each for each in values]).__code__
_HAS_FUNCTION_OF_ITS_OWN = any(isinstance(each, CodeType) for each in _COMPREHENSION.co_consts)
"""Whether a list comprehension is compiled to a function, as before Python 3.12."""


def first_argument(function: Function) -> str | None:
    """The first argument of a function, which `super()` is of."""
    found = [*function.args.posonlyargs, *function.args.args]
    return found[0].arg if found else None


def may_be_generator(comprehension: ast.expr) -> bool:
    """Whether a generator has the meaning of a comprehension."""
    return not any(
        isinstance(each, ast.Await)
        or (isinstance(each, ast.comprehension) and each.is_async)
        or (isinstance(each, ast.Name) and each.id in _READING_VARIABLES)
        for each in ast.walk(comprehension)
    )


def with_own_super(generator: ast.GeneratorExp, first: str | None) -> ast.GeneratorExp:
    """A generator in which `super()` is that of the function around it, where it is so in a comprehension.

    Args:
        generator: The generator, which is changed.
        first: The first argument of the function.
    """
    if first is not None and not _HAS_FUNCTION_OF_ITS_OWN:
        change = _Super(first)
        outside, *others = generator.generators
        outside.ifs = [change.visit(each) for each in outside.ifs]
        generator.generators = [outside, *(change.visit(each) for each in others)]
        generator.elt = change.visit(generator.elt)
    return generator


class _Super(ast.NodeTransformer):
    """Gives `super()` its arguments, in the generator and in what it goes over within an element."""

    def __init__(self, first: str) -> None:
        self._first = first

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="super"), args=[], keywords=[]):
                names = ("__class__", self._first)
                node.args = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in names]
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        node.generators[0].iter = self.visit(node.generators[0].iter)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self.visit(node.args)  # the default values
        return node
