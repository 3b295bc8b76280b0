"""What the comprehensions of a model's functions give while it is captured.

Python has a comprehension fill its list, set or dict on the stack of the interpreter, where no one sees it before it is
complete, and since Python 3.12 its variables hide those of the function around it. So a capture has a comprehension
be a generator, whose elements a function puts into a list, set or dict of its own (`list_syntax`, `filling`). Python
gives a generator the same scopes as a comprehension: what the names in it are, what it shares with the functions around
it, and that what it goes over is evaluated before it begins. What differs:

1. `StopIteration` that an element raises is a RuntimeError of a generator. It is raised again here.
2. `super()` and `locals()` are others there; see `list_syntax`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any, TypeAlias, TypeVar

from opbridge.capture.tracer.filling import filled_dict, filled_list, filled_set
from opbridge.capture.tracer.loop_filled_lists import copied, has_grown
from opbridge.capture.tracer.symbolic_list import SymbolicList

__all__ = ["as_symbolic", "dict_of", "list_of", "set_of"]

_Elements: TypeAlias = "GeneratorType[Any, None, None]"
_Filled = TypeVar("_Filled")


def list_of(elements: _Elements) -> list[Any]:
    """`[each for each in elements]`."""
    found: list[Any] = as_symbolic(_as_comprehension(filled_list, elements))
    return found


def set_of(elements: _Elements) -> set[Any]:
    """`{each for each in elements}`."""
    return _as_comprehension(filled_set, elements)


def dict_of(items: _Elements) -> dict[Any, Any]:
    """`{key: value for key, value in items}`."""
    return _as_comprehension(filled_dict, items)


def as_symbolic(values: Any) -> Any:
    """A list that a loop has filled, in the class of those that have a form; any other as a list."""
    if not has_grown(values):
        return values if type(values) is list else list(values)
    return copied(values, SymbolicList(values))


def _as_comprehension(fill: Callable[[_Elements], _Filled], elements: _Elements) -> _Filled:
    code = elements.gi_code
    try:
        return fill(elements)
    except RuntimeError as error:
        stopped = error.__cause__
        trace = stopped.__traceback__ if isinstance(stopped, StopIteration) else None
        if trace is None or trace.tb_frame.f_code is not code:  # the outermost frame that it has left
            raise
        assert stopped is not None
    raise stopped
