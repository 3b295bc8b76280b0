"""Elements of a list that data choose: `steps[i](x)`, with a decision on each element.

Python asks for a number there, and says neither of what nor how many elements there are. The line tells: the source
positions of the instruction that runs are those of the subscript, whose value is a name or an attribute.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from opbridge.base.python_private.frames import variables
from opbridge.base.python_private.instructions import instruction_at
from opbridge.capture.control_flow.program_points import is_the_models

__all__ = ["elements_asked_for"]

_MOST_ELEMENTS = 32
_SUBSCRIPTS = frozenset({"BINARY_SUBSCR", "BINARY_SLICE", "BINARY_OP"})


def elements_asked_for(outermost: FrameType) -> int | None:
    """How many elements there are where Python asks for the index of one; None where it asks for something else.

    Args:
        outermost: The frame in which the model is called.
    """
    held = _subscripted(outermost)
    return len(held) if held is not None and 0 < len(held) <= _MOST_ELEMENTS else None


def _subscripted(outermost: FrameType) -> Sequence[Any] | None:
    """The list that the innermost line of the model outside of torch takes an element of."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not outermost:
        name = str(frame.f_globals.get("__name__")).partition(".")[0]
        if name != "torch" and is_the_models(frame):
            return _value(frame)
        frame = frame.f_back
    return None


def _value(frame: FrameType) -> Sequence[Any] | None:
    if instruction_at(frame.f_code, frame.f_lasti).name not in _SUBSCRIPTS:
        return None
    found = _expression(frame.f_code, frame.f_lasti)
    if found is None:
        return None
    value: Any = variables(frame).get(found[0])
    value = frame.f_globals.get(found[0]) if value is None else value
    for attribute in found[1:]:
        value = getattr(value, attribute, None)
    return value if isinstance(value, list | tuple | torch.nn.ModuleList | torch.nn.Sequential) else None


@functools.lru_cache(maxsize=1024)
def _expression(code: CodeType, at: int) -> tuple[str, ...] | None:
    """The names of what an instruction takes an element of: `("self", "steps")`; None where that is something else."""
    position = list(code.co_positions())[at // 2]
    if None in position:
        return None
    first, last, start, end = position
    assert first is not None and last is not None
    lines = [linecache.getline(code.co_filename, each).encode() for each in range(first, last + 1)]
    if not all(lines):
        return None
    lines[-1] = lines[-1][:end]
    text = b"".join([lines[0][start:], *lines[1:]] if len(lines) > 1 else [lines[0][start:]]).decode()
    try:
        node = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.Subscript):
        return None
    names: list[str] = []
    value = node.value
    while isinstance(value, ast.Attribute):
        names.append(value.attr)
        value = value.value
    return (value.id, *reversed(names)) if isinstance(value, ast.Name) else None
