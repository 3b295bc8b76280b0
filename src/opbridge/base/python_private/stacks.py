"""What the stack of a frame holds while it runs. Python shows the variables of a frame, and nothing of its stack.

A frame of CPython is a header, the variables and then the stack, one word each. The stack is read in place: on the
releases whose header is known, and after what was read of a known stack has been right.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from types import CellType, CodeType, FrameType
from typing import Any

from opbridge.base.python_private.comprehensions import hidden_at, list_of_iterations
from opbridge.base.python_private.instructions import name_within

__all__ = ["list_being_filled", "variable", "variables"]

_WORD = ctypes.sizeof(ctypes.c_void_p)
_FRAME_OBJECT = {(3, 11): 5, (3, 12): 6, (3, 13): 6}
"""For each release the word of the header that is the frame as Python has it."""
_HEADER = 9
"""How many words the header has, on all of these."""
_NO_VALUE = object()


def list_being_filled(frame: FrameType, over: Any) -> list[Any] | None:
    """The list that the iterations of a comprehension's loop append to; None where that is not known.

    Args:
        frame: The frame that the loop runs in, as it begins an iteration.
        over: The iterator that it goes over.
    """
    place = list_of_iterations(frame.f_code, frame.f_lasti)
    if place is None or not _is_known() or _address(frame, place + 1) != id(over):
        return None
    found = _value(frame, place)
    return found if type(found) is list else None


def variables(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame that have a value.

    While a comprehension runs in a frame, its variables are among them, with names of their own (see
    `instructions.name_within`), and so are those of the function that they hide.

    Args:
        frame: The frame.
    """
    hidden = hidden_at(frame.f_code, frame.f_lasti)
    if not hidden:
        return dict(frame.f_locals)
    if not _is_known():
        shown = dict(frame.f_locals)
        counts = Counter(each.name for each in hidden)
        return {name_within(name, counts[name]): value for name, value in shown.items()}
    # Not by `f_locals`, which takes a variable of a comprehension for one that functions share where the function has
    # such a one of the same name: Python 3.13.0 and 3.13.1 crash.
    names = _names(frame.f_code)
    found = {name: _value(frame, place - len(names)) for place, name in enumerate(names)}
    above: dict[str, list[Any]] = {}
    for each in hidden:
        above.setdefault(each.name, []).append(_value(frame, each.place))
    for name, values in above.items():
        for level, value in enumerate([*values, found.pop(name)]):
            found[name_within(name, level)] = value
    shared = {name: _contents(value) if type(value) is CellType else value for name, value in found.items()}
    return {name: value for name, value in shared.items() if value is not _NO_VALUE}


def _contents(cell: CellType) -> Any:
    """What functions share by a cell."""
    try:
        return cell.cell_contents
    except ValueError:
        return _NO_VALUE


def variable(frame: FrameType, name: str) -> Any:
    """What a name stands for in the line that a frame is at; None where no variable has it.

    Args:
        frame: The frame.
        name: The name as it is written.
    """
    hidden = [each for each in hidden_at(frame.f_code, frame.f_lasti) if each.name == name]
    return variables(frame).get(name_within(name, len(hidden)))


def _value(frame: FrameType, place: int) -> Any:
    """A value on the stack, below which the variables are."""
    address = _address(frame, place)
    return ctypes.cast(address, ctypes.py_object).value if address else _NO_VALUE


def _address(frame: FrameType, place: int) -> int:
    """Where a value on the stack is; 0 where the stack holds none there."""
    return _word(_header(frame) + (_HEADER + len(_names(frame.f_code)) + place) * _WORD)


def _header(frame: FrameType) -> int:
    """Where the header of a frame is: behind its type, its number of references and the frame that has called it."""
    return _word(id(frame) + object.__basicsize__ + _WORD)


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _names(code: CodeType) -> tuple[str, ...]:
    """The names of the variables of a frame, in the order of their words."""
    return (*dict.fromkeys((*code.co_varnames, *code.co_cellvars)), *code.co_freevars)


@functools.cache
def _is_known() -> bool:
    """Whether stacks can be read: the release has been checked, and it is so in this process."""
    word = _FRAME_OBJECT.get(sys.version_info[:2])
    if sys.implementation.name != "cpython" or word is None or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    own = word * _WORD
    seen = []

    class Once:
        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            frame = sys._getframe(1)
            place = list_of_iterations(frame.f_code, frame.f_lasti)
            is_frame = _word(_header(frame) + own) == id(frame)
            seen.append(is_frame and place is not None and _address(frame, place + 1) == id(self))
            raise StopIteration

    unused = [each for each in Once()]  # noqa: C416  # the stack of a comprehension is what is read
    return not unused and seen == [True]
