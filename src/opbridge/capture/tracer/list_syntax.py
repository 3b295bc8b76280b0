"""The lists that a model's functions make, as lists that loops may fill: see `symbolic_list`.

In the syntax tree of a function,

1. `[f(x) for x in values]` is a generator that a function makes a list of, and so are comprehensions of sets and
   dicts; see `comprehensions`;
2. `[]`, `[x]` and `list()` that are assigned are lists of that class, in a function that appends to lists in loops or
   extends them;
3. `[x, *values]` is a sum of lists, as `values` may have a symbolic length;
4. `zip(*values)` gives a sequence for each place in tuples;
5. a `while` loop that fills a list up to a size is a loop over a range; see `counting_loops`;
6. a loop that fills a list by index appends to it; see `filled_by_index`;
7. `x in values` is a call, in which each comparison has a place of its own; see `iterating.contains`.
"""

from __future__ import annotations

import ast
import dis
import functools
from collections.abc import Sequence
from types import CodeType
from typing import Any

from opbridge.base.python_private.instructions import ADDING_IN_PLACE
from opbridge.base.python_private.syntax import Function, recompiled
from opbridge.capture.tracer.counting_loops import as_for_loop
from opbridge.capture.tracer.filled_by_index import append_instead
from opbridge.capture.tracer.generator_syntax import first_argument, may_be_generator, with_own_super

__all__ = ["DICT", "IN", "LIST", "NEW", "SET", "SUM", "ZIP", "with_symbolic_lists"]

LIST = "__opbridge_list__"
SET = "__opbridge_set__"
DICT = "__opbridge_dict__"
NEW = "__opbridge_new__"
SUM = "__opbridge_sum__"
ZIP = "__opbridge_unzipped__"
IN = "__opbridge_in__"
"""The names of the functions that are called, among the globals of a function."""

_ADDING = frozenset({"append", "extend", "insert"})
_NAMES = _ADDING | {"zip"}
_MAKING = (dis.opmap["LIST_EXTEND"], dis.opmap["LIST_APPEND"])
_MAKING_OTHERS = (dis.opmap["SET_ADD"], dis.opmap["MAP_ADD"])
_OWN_FUNCTIONS = frozenset({"<listcomp>", "<genexpr>"})
_OWN_FUNCTIONS_OF_OTHERS = frozenset({"<setcomp>", "<dictcomp>"})
_BUILDING = dis.opmap["BUILD_LIST"]
_STORING = dis.opmap["STORE_SUBSCR"]
_CONTAINING = dis.opmap["CONTAINS_OP"]
_CONSTANT = dis.opmap["LOAD_CONST"]


@functools.lru_cache(maxsize=1 << 14)
def with_symbolic_lists(code: CodeType, *, of_lists: bool = False) -> CodeType:
    """The code of a function whose lists are of that class; the same code where it makes none that may be filled.

    Args:
        code: The code of the function.
        of_lists: Whether functions without lists are left out, which have comprehensions of sets or dicts alone, or
            ask whether something is in a list. That is of interest to the capture of several paths alone.
    """
    if not _may_fill(code) and (of_lists or not (_fills_others(code) or _asks_for_members(code))):
        return code
    return recompiled(code, _change) or code


def _may_fill(code: CodeType) -> bool:
    """Whether a function may make such lists, as far as its instructions tell without its source."""
    operations = code.co_code[::2]
    return (
        any(each in operations for each in _MAKING)
        or (_BUILDING in operations and (ADDING_IN_PLACE in code.co_code or _STORING in operations))
        or any(name in _NAMES for name in code.co_names)
        or any(
            isinstance(each, CodeType) and (each.co_name in _OWN_FUNCTIONS or _may_fill(each))
            for each in code.co_consts
        )
    )


def _fills_others(code: CodeType) -> bool:
    """Whether a function has comprehensions of sets or dicts."""
    operations = code.co_code[::2]
    return any(each in operations for each in _MAKING_OTHERS) or any(
        isinstance(each, CodeType) and (each.co_name in _OWN_FUNCTIONS_OF_OTHERS or _fills_others(each))
        for each in code.co_consts
    )


def _asks_for_members(code: CodeType) -> bool:
    """Whether a function asks whether something is in a list, that may be no string."""
    found = code.co_code
    if _CONTAINING not in found[::2]:
        return False
    for at in range(0, len(found), 2):
        if found[at] == _CONTAINING:
            before = [code.co_consts[found[k + 1]] for k in (at - 2, at - 4) if k >= 0 and found[k] == _CONSTANT]
            if not any(map(_is_text, before)):
                return True
    return False


def _is_text(value: Any) -> bool:
    """Whether a constant is a string, or holds strings alone."""
    return isinstance(value, str) or (isinstance(value, tuple | frozenset) and all(isinstance(x, str) for x in value))


def _change(function: Function) -> bool:
    by_index = 0 if isinstance(function, ast.Lambda) else append_instead(function.body)
    nodes = list(ast.walk(function))
    loops = any(isinstance(each, ast.For | ast.While) for each in nodes)
    fills = any(_extends(each) or (loops and _adds(each)) for each in nodes)
    change = _Lists(function, fills)
    if isinstance(function, ast.Lambda):
        function.body = change.visit(function.body)
    else:
        function.body = [change.visit(each) for each in function.body]
    return change.count + by_index > 0


def _extends(node: ast.AST) -> bool:
    """Whether a list is extended: `found.extend(values)`, or `found += values`."""
    is_method = isinstance(node, ast.Attribute) and node.attr == "extend"
    return is_method or (isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add))


def _adds(node: ast.AST) -> bool:
    """Whether something is added to a list."""
    return (isinstance(node, ast.Attribute) and node.attr in _ADDING) or isinstance(node, ast.AugAssign)


class _Lists(ast.NodeTransformer):
    """Makes these changes.

    Args:
        function: The function.
        fills: Whether the function appends to lists in loops, or extends them.

    Attributes:
        count: How many it has made.
    """

    def __init__(self, function: Function, fills: bool) -> None:
        self._first = first_argument(function)
        self._fills = fills
        self._assigned: set[ast.expr] = set()
        self.count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._visit_function(node)

    def _visit_function(self, node: Function) -> ast.AST:
        around = self._first
        for name, value in ast.iter_fields(node):
            self._first = first_argument(node) if name == "body" else around  # the rest is evaluated outside of it
            if isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list):
                value[:] = [self.visit(each) if isinstance(each, ast.AST) else each for each in value]
        self._first = around
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._collected(LIST, node, node.elt)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        return self._collected(SET, node, node.elt)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        item = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node.key)
        return self._collected(DICT, node, item)

    def _collected(self, name: str, node: ast.ListComp | ast.SetComp | ast.DictComp, element: ast.expr) -> ast.expr:
        if not may_be_generator(node):
            return node
        generator = ast.copy_location(ast.GeneratorExp(element, node.generators), node)
        self.generic_visit(generator)
        return self._call(name, node, with_own_super(generator, self._first))

    def visit_List(self, node: ast.List) -> ast.expr:
        is_assigned = node in self._assigned
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        if any(isinstance(each, ast.Starred) for each in node.elts):
            return self._call(SUM, node, *_pieces(node))
        return self._call(NEW, node, node) if is_assigned and self._fills else node

    def visit_While(self, node: ast.While) -> ast.AST:
        loop = as_for_loop(node)
        self.count += loop is not None
        return self.generic_visit(node if loop is None else loop)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self._note(node.value)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            self._note(node.value)
            node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_zip = isinstance(node.func, ast.Name) and node.func.id == "zip"
        if is_zip and len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            return self._call(ZIP, node, node.args[0].value, keywords=node.keywords)
        return self._call(NEW, node, node) if self._fills and node in self._assigned else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Compare(ops=[ast.In() | ast.NotIn() as operator], comparators=[container]):
                if _is_of_text(node.left) or _is_of_text(container):
                    return node
                found = self._call(IN, node, node.left, container)
                return ast.copy_location(ast.UnaryOp(ast.Not(), found), node) if type(operator) is ast.NotIn else found
        return node

    def _note(self, value: ast.expr) -> None:
        """Notes the lists in what is assigned: a list, and those in a tuple, a list or a dict."""
        if isinstance(value, ast.List) or _is_empty(value):
            self._assigned.add(value)
        inner: list[ast.expr | None] = []
        if isinstance(value, ast.List | ast.Tuple):
            inner = list(value.elts)
        elif isinstance(value, ast.Dict):
            inner = list(value.values)
        elif isinstance(value, ast.IfExp):
            inner = [value.body, value.orelse]
        for each in inner:
            if each is not None:
                self._note(each)

    def _call(self, name: str, at: ast.expr, *args: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.expr:
        self.count += 1
        call = ast.Call(func=ast.Name(name, ast.Load()), args=list(args), keywords=list(keywords))
        for each in (call, call.func):
            ast.copy_location(each, at)
        return call


def _is_of_text(value: ast.expr) -> bool:
    """Whether a value is a string, or a display of strings."""
    inner = value.elts if isinstance(value, ast.Tuple | ast.List | ast.Set) else [value]
    return all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in inner)


def _is_empty(value: ast.expr) -> bool:
    """Whether a value is `list()`."""
    match value:
        case ast.Call(func=ast.Name(id="list"), args=[], keywords=[]):
            return True
    return False


def _pieces(node: ast.List) -> list[ast.expr]:
    """The lists that a list with starred elements is the sum of."""
    found: list[ast.expr] = []
    for each in node.elts:
        if isinstance(each, ast.Starred):
            found.append(each.value)
        elif found and isinstance(found[-1], ast.List) and getattr(found[-1], "is_piece", False):
            found[-1].elts.append(each)
        else:
            piece = ast.copy_location(ast.List(elts=[each], ctx=ast.Load()), each)
            piece.is_piece = True  # type: ignore[attr-defined]
            found.append(piece)
    return found
