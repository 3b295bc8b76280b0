"""The list, dict or set in which an instruction looks something up: `values[i]`, `table.get(key)`, `key in known`.

The interpreter holds it on its stack. The source says what it is: the positions of the instruction are those of the
expression, in which it is a variable, an attribute, an element of one, or a display of constants.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import linecache
from types import CodeType, FrameType
from typing import Any

from opbridge.base.python_private.frames import variables

__all__ = ["NotLookedUp", "container_at"]

_METHODS = frozenset({"get", "pop", "setdefault", "__contains__", "__getitem__", "__setitem__"})


class NotLookedUp(enum.Enum):
    """Why it is not known in what an instruction looks something up."""

    NO_SOURCE = "The source of the instruction is not known."
    NO_LOOKUP = "It is another expression, such as a call."
    UNKNOWN = "What it looks up something in has no name, such as the result of a call."


def container_at(frame: FrameType, offset: int) -> Any:
    """In what an instruction looks something up, or a `NotLookedUp`.

    Of a display, `{1: a, 2: b}`, that is a set of its constant keys.

    Args:
        frame: The frame that runs.
        offset: The instruction.
    """
    node = _container(frame.f_code, offset)
    return node if isinstance(node, NotLookedUp) else _value(node, frame)


@functools.lru_cache(maxsize=1024)
def _container(code: CodeType, offset: int) -> ast.expr | NotLookedUp:
    """The expression of what an instruction looks something up in."""
    node = _expression(code, offset)
    match node:
        case None:
            return NotLookedUp.NO_SOURCE
        case ast.Subscript(value=value):
            return value
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _METHODS:
            return value
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[value]):
            return value
    return NotLookedUp.NO_LOOKUP


def _value(node: ast.expr, frame: FrameType) -> Any:
    match node:
        case ast.Name(id=name):
            held = variables(frame)
            missing = NotLookedUp.UNKNOWN
            return held[name] if name in held else frame.f_globals.get(name, getattr(builtins, name, missing))
        case ast.Attribute(value=value, attr=name):
            found = _value(value, frame)
            return found if found is NotLookedUp.UNKNOWN else getattr(found, name, NotLookedUp.UNKNOWN)
        case ast.Subscript(value=value, slice=ast.Constant(value=key)):
            found = _value(value, frame)
            if isinstance(found, dict):
                return found.get(key, NotLookedUp.UNKNOWN)
            is_element = isinstance(found, list | tuple) and type(key) is int and -len(found) <= key < len(found)
            return found[key] if is_element else NotLookedUp.UNKNOWN
        case ast.Dict(keys=keys) if all(isinstance(each, ast.Constant) for each in keys):
            return {each.value for each in keys if isinstance(each, ast.Constant)}
        case ast.Set(elts=elements) if all(isinstance(each, ast.Constant) for each in elements):
            return {each.value for each in elements if isinstance(each, ast.Constant)}
    return NotLookedUp.UNKNOWN


def _expression(code: CodeType, offset: int) -> ast.expr | None:
    """The expression that an instruction was compiled from; None where the source is not there."""
    position = next((each for at, each in enumerate(code.co_positions()) if at == offset // 2), None)
    if position is None or None in position:
        return None
    first, last, start, end = position
    assert first is not None and last is not None
    lines = [linecache.getline(code.co_filename, each).encode() for each in range(first, last + 1)]
    if not all(lines):
        return None
    lines[-1] = lines[-1][:end]
    text = b"".join([lines[0][start:], *lines[1:]]).decode()
    try:
        return ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
