"""Functions of transformers with other statements in the place of some of theirs, while a model is captured.

A statement is told from others by its text, without comments and line breaks. What takes its place may compute the same
by a function of opbridge, which it imports by `__import__`: the names of the function's module stay as they are.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable, Mapping

from opbridge.base.python_private.syntax import Function, recompiled, statement_at

__all__ = ["with_statements"]


def with_statements(changes: Mapping[str, str]) -> Callable[[types.FunctionType], types.CodeType | None]:
    """What gives the code of a function with other statements; None where it does not have each of them once.

    Args:
        changes: The statements in the place of others, by these: both as `ast.unparse` writes them, or a statement in
            the place of another one in any form. What ends with a colon stands for a whole statement that begins so.
    """

    @functools.cache
    def changed(function: types.FunctionType) -> types.CodeType | None:
        return recompiled(function.__code__, lambda node: _change(node, changes))

    return changed


def _change(function: Function, changes: Mapping[str, str]) -> bool:
    put = _Changed(changes)
    put.visit(function)
    return sorted(put.found) == sorted(changes)


class _Changed(ast.NodeTransformer):
    """Puts statements in the place of others, and notes which it has found."""

    def __init__(self, changes: Mapping[str, str]) -> None:
        self.changes, self.found = changes, list[str]()

    def visit(self, node: ast.AST) -> ast.AST:
        text = ast.unparse(node) if isinstance(node, ast.stmt) else ""
        head = text.partition("\n")[0]
        if head.endswith(":") and head in self.changes:
            text = head
        if text not in self.changes:
            changed: ast.AST = self.generic_visit(node)
            return changed
        self.found.append(text)
        return statement_at(node, self.changes[text])
