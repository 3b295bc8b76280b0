"""The variables of a frame that runs."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from opbridge.base.python_private.comprehensions import hidden_names

__all__ = ["variables"]

_MISTAKES_CELLS = (3, 13, 0) <= sys.version_info < (3, 13, 2)
"""Whether `f_locals` takes what a comprehension has put in the place of a shared variable for one, and crashes."""


def variables(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame that have a value.

    Where a comprehension runs in it that hides some, those of the comprehension are in their place.

    Args:
        frame: The frame.
    """
    if not _MISTAKES_CELLS:
        return dict(frame.f_locals)
    code = frame.f_code
    hidden = hidden_names(code, frame.f_lasti).intersection(code.co_cellvars)
    if not hidden:
        return dict(frame.f_locals)
    names, held = (*code.co_varnames, *code.co_cellvars, *code.co_freevars), frame.f_locals
    return {name: held[name] for name in dict.fromkeys(names) if name not in hidden and name in held}
