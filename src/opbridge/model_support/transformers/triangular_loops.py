"""Loops of transformers that invert a triangular matrix row by row, as one operator while a model is captured.

The chunks of Kimi's delta attention write the 63 rows of a matrix one after another, and a capture follows each. Row
`i` becomes `A[i] + A[i] @ T[:i]`: what the loop computes is the solution of `(I - A) T = A`, where `A` has nothing from
the diagonal on. The code of a function whose source is known to pass such a matrix to this loop is compiled with the
operator in its place, so that whatever holds the function runs it.

Checked on transformers 5.24.
"""

from __future__ import annotations

import ast
import functools
import types

from opbridge.base.python_private.syntax import Function, recompiled, statement_at

__all__ = ["with_operator"]

_LOOP = """\
for i in range(1, chunk_size):
    row = {0}[..., i, :i].clone()
    sub = {0}[..., :i, :i].clone()
    {0}[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-2)"""

# In the order of a contiguous tensor, which the written matrix has; the operator's result lies column by column.
_OPERATOR = """\
{0} = torch.linalg.solve_triangular(
    torch.eye(chunk_size, dtype={0}.dtype, device={0}.device) - {0}, {0}, upper=False, unitriangular=True
).contiguous()"""


@functools.cache
def with_operator(function: types.FunctionType) -> types.CodeType | None:
    """The code of a function with the operator in the place of each such loop; None where there is none."""
    return recompiled(function.__code__, _put_operators)


def _put_operators(function: Function) -> bool:
    changed = _WithOperators()
    changed.visit(function)
    return changed.count > 0


class _WithOperators(ast.NodeTransformer):
    """Puts the operator in the place of loops, and counts them."""

    count = 0

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        name = next((each for each in sorted(names) if ast.unparse(node) == _LOOP.format(each)), None)
        if name is None:
            return node
        self.count += 1
        return statement_at(node, _OPERATOR.format(name))
