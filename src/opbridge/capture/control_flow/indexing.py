"""Elements of a list that data choose, `steps[i](x)`, with a decision on each element, and values of a dict.

Python asks for a number there, and says neither of what nor how many elements there are. The source tells; see
`base.python_private.lookups`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch

from opbridge.base.python_private.instructions import instruction_at
from opbridge.base.python_private.lookups import container_at
from opbridge.capture.control_flow.program_points import is_the_models

__all__ = ["elements_asked_for", "is_of_dict"]

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
            if instruction_at(frame.f_code, frame.f_lasti).name not in _SUBSCRIPTS:
                return None
            held = container_at(frame, frame.f_lasti)
            return held if isinstance(held, list | tuple | torch.nn.ModuleList | torch.nn.Sequential) else None
        frame = frame.f_back
    return None


def is_of_dict(frame: FrameType, offset: int) -> bool:
    """Whether an instruction takes a value of a dict, where that is known: see `container_at`.

    Args:
        frame: The frame.
        offset: The instruction.
    """
    return isinstance(container_at(frame, offset), dict)
