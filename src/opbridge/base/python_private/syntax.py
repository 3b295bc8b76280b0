"""Functions that are compiled again from a changed syntax tree.

A function is changed only where its source compiles to the code that it has: a file that was edited since, or code that
something else has rewritten, stays as it is. Lines, closures, defaults and decorators are those of the function.
"""

from __future__ import annotations
import __future__ as features

import ast
import dataclasses
import functools
import inspect
import linecache
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeAlias, TypeVar

__all__ = ["Function", "bodies", "outside_loops", "recompiled", "statement_at"]

_FEATURES = functools.reduce(
    lambda flags, name: flags | getattr(features, name).compiler_flag, features.all_feature_names, 0
)
_OUTER = "__outer__"
_Node = TypeVar("_Node", bound=ast.AST)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LAMBDA = "<lambda>"


@dataclass(frozen=True)
class _Definition:
    """A function in its file.

    Attributes:
        node: The definition.
        owner: The class around it.
        imports: The imports of its file: a method of what is imported is called by other instructions.
    """

    node: Function
    owner: str | None
    imports: tuple[ast.stmt, ...]


def recompiled(code: CodeType, change: Callable[[Function], bool]) -> CodeType | None:
    """The code of a function after a change of its syntax tree; None where it is not changed.

    Args:
        code: The code of the function as it is.
        change: Changes the function in place, and returns whether it did.
    """
    found = _definition(code)
    if found is None:
        return None
    node: Function = pickle.loads(pickle.dumps(found.node, pickle.HIGHEST_PROTOCOL))  # twice as fast as deepcopy
    if not change(node):
        return None
    # What a part of a file is compiled to, such as a block of a page, does not depend on the imports of the others.
    forms = (found, dataclasses.replace(found, imports=())) if found.imports else (found,)
    essence = _essence(code)
    found = next((each for each in forms if _essence(_compiled(each, code)) == essence), None)
    if found is None:
        return None
    new = _compiled(dataclasses.replace(found, node=ast.fix_missing_locations(node)), code)
    return None if new is None or new.co_freevars != code.co_freevars else new


def statement_at(node: ast.AST, text: str) -> ast.stmt:
    """A statement, all parts of which have the place of a node in the source.

    Args:
        node: The node.
        text: The statement.
    """
    (statement,) = ast.parse(text).body
    for each in ast.walk(statement):
        if hasattr(each, "lineno"):
            ast.copy_location(each, node)
    return statement


def _definition(code: CodeType) -> _Definition | None:
    """The definition that a code object is compiled from; None where there are several, or none."""
    source = "".join(linecache.getlines(code.co_filename))
    of_lambdas = code.co_name == _LAMBDA
    return _definitions(code.co_filename, source, of_lambdas).get((code.co_name, code.co_firstlineno))


@functools.lru_cache(maxsize=256)
def _definitions(name: str, source: str, of_lambdas: bool) -> dict[tuple[str, int], _Definition]:
    """The functions of a file, or its lambdas, by their names and first lines."""
    tree = _tree(name, source)
    if tree is None:
        return {}
    imports = tuple(_imports(tree))
    found: dict[tuple[str, int], _Definition] = {}
    twice = set()
    for each, owner in _lambdas(tree, None) if of_lambdas else _functions(tree.body, None):
        key = _name_and_line(each)
        if key in found:
            twice.add(key)
        found[key] = _Definition(each, owner, imports)
    return {key: value for key, value in found.items() if key not in twice}


@functools.lru_cache(maxsize=8)
def _tree(name: str, source: str) -> ast.Module | None:
    try:
        return ast.parse(source, name)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _name_and_line(node: Function) -> tuple[str, int]:
    if isinstance(node, ast.Lambda):
        return _LAMBDA, node.lineno
    return node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _imports(node: ast.AST) -> Iterator[ast.stmt]:
    """The imports of a module outside of its functions and classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import) or (isinstance(child, ast.ImportFrom) and child.module != "__future__"):
            yield child
        elif not isinstance(child, (Function, ast.ClassDef, ast.expr)):
            yield from _imports(child)


def _functions(body: Iterable[ast.stmt], owner: str | None) -> Iterator[tuple[Function, str | None]]:
    """The functions that statements define, those in other statements and functions too, with the class around each."""
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each, owner
        inside = each.name if isinstance(each, ast.ClassDef) else owner
        for within in bodies(each):
            yield from _functions(within, inside)


def bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statements within a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for name in ("handlers", "cases"):
        yield from (each.body for each in getattr(statement, name, []))


def outside_loops(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, without the bodies of the loops in it."""
    yield node
    inner = node.orelse if isinstance(node, ast.For | ast.AsyncFor | ast.While) else ast.iter_child_nodes(node)
    for each in inner:
        yield from outside_loops(each)


def _lambdas(node: ast.AST, owner: str | None) -> Iterator[tuple[Function, str | None]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Lambda):
            yield child, owner
        yield from _lambdas(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _compiled(definition: _Definition, code: CodeType) -> CodeType | None:
    """The code of a definition, compiled within its class and a function that has its free variables."""
    owner, node = definition.owner, definition.node
    inner: list[ast.stmt] = [_at(node, ast.Expr(node)) if isinstance(node, ast.Lambda) else node]
    free = [name for name in code.co_freevars if owner is None or name != "__class__"]
    if owner is not None:
        around = ast.ClassDef(name=owner, bases=[], keywords=[], body=inner, decorator_list=[], **_no_parameters())
        # Where the class is no free variable, its name in the method is that of a global variable.
        inner = [*([] if owner in free else [_at(node, ast.Global([owner]))]), _at(node, around)]
    names = ast.arguments(
        posonlyargs=[], args=[_at(node, ast.arg(name)) for name in free], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    outer = _at(node, ast.FunctionDef(name=_OUTER, args=names, body=inner, decorator_list=[], **_no_parameters()))
    module = ast.Module(body=[*definition.imports, outer], type_ignores=[])
    try:
        made = compile(module, code.co_filename, "exec", flags=code.co_flags & _FEATURES, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    found = next((each for each in _within(made) if _key(each) == _key(code)), None)
    return None if found is None else _named(found, code)


def _at(node: ast.AST, made: _Node) -> _Node:
    """A node that has been made, at the place of another one in the source."""
    return ast.copy_location(made, node)


def _no_parameters() -> dict[str, Any]:
    """Type parameters, which a definition has since Python 3.12."""
    return {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


def _within(code: CodeType) -> Iterator[CodeType]:
    """The code objects in a code object, the outermost first."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _within(each)


def _essence(code: CodeType | None) -> Any:
    """What two code objects have in common that do the same at the same lines."""
    if code is None:
        return None
    consts = tuple(
        _essence(each) if isinstance(each, CodeType) else (type(each), repr(each)) for each in code.co_consts
    )
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, consts, names, code.co_firstlineno, code.co_flags & ~inspect.CO_NESTED


def _named(code: CodeType, original: CodeType) -> CodeType:
    """A code object with the qualified name of another one, with which the names of those within it begin."""
    before = code.co_qualname

    def renamed(each: CodeType) -> CodeType:
        name = each.co_qualname
        new = original.co_qualname + name[len(before) :] if name.startswith(before) else name
        consts = tuple(
            renamed(const) if isinstance(const, CodeType) else new if const == name else const  # a class has its name
            for const in each.co_consts
        )
        return each.replace(co_qualname=new, co_consts=consts)

    return renamed(code).replace(co_flags=original.co_flags)
