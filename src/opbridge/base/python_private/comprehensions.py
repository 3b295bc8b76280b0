"""Comprehensions that run as Python compiles them, and not as a capture rewrites them.

Before Python 3.12 a comprehension is a function of its own. Since then it runs in the function around it, where its
variables hide those of the function that have the same names.
"""

from __future__ import annotations

from types import CodeType

from opbridge.base.python_private.instructions import by_code, instruction_at, instructions

__all__ = ["hidden_names", "is_in_comprehension"]

_OWN_FUNCTIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})


def is_in_comprehension(code: CodeType, offset: int) -> bool:
    """Whether a frame is in a comprehension, whose result no variable holds until it is complete.

    Args:
        code: The code of the frame.
        offset: Where it is.
    """
    return code.co_name in _OWN_FUNCTIONS or bool(hidden_names(code, offset))


def hidden_names(code: CodeType, offset: int) -> frozenset[str]:
    """The variables of a function, with a value or without, that comprehensions hide where a frame is.

    Args:
        code: The code of the frame.
        offset: Where it is.
    """
    hiding = _hiding(code)
    if not hiding:
        return frozenset()
    return frozenset(hiding[place] for place in instruction_at(code, offset).stack or () if place in hiding)


@by_code
def _hiding(code: CodeType) -> dict[int, str]:
    """What each instruction hides that begins a comprehension."""
    return {each.offset: each.value for each in instructions(code) if each.name == "LOAD_FAST_AND_CLEAR"}
