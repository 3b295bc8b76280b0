"""What the loops of the run that is captured read or make once, and what they note of their iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.tracer.symbolic_loops import active_loops

__all__ = ["note_part", "number_at", "once", "since_decision"]


def number_at(numbers: torch.Tensor, index: Any) -> Any:
    """The number of an index in a tensor of one dimension: one number, however often it is asked for."""
    loops = active_loops()
    if loops is None:
        return torch.select(numbers, 0, index).item()
    known = loops.numbers_read
    key = id(numbers), numbers._version, id(index)
    if key not in known:
        known[key] = torch.select(numbers, 0, index).item(), numbers, index
    return known[key][0]


def once(what: str, objects: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What a function gives, made once of the same objects; anew after a decision, whose other branch may lack it.

    Args:
        what: What it is.
        objects: What it is made of: tensors, symbolic numbers, and others that can be compared.
        make: Makes it.
    """
    loops = active_loops()
    if loops is None:
        return make()
    key = what, tuple((id(each), each._version) if isinstance(each, torch.Tensor) else str(each) for each in objects)
    if key not in loops.made:
        loops.made[key] = make(), objects
    return loops.made[key][0]


def since_decision() -> object:
    """An object that is another one after each decision."""
    return None if active_loops() is None else once("since a decision", (), object)


def note_part(size: Any, total: Any) -> None:
    """Notes the size of a part of a tensor that an iteration is given, and the sum of the sizes of all parts."""
    loops = active_loops()
    if loops is not None and loops.running:
        loops.running[-1].parts[-1].append((size, total))
