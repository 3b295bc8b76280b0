"""The operators that a captured graph has for branches and loops: torch's own, and those of the capture alone.

The latter are gone when the graph is lowered; `DECISION` marks where a path divides from others.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = [
    "CARRIED",
    "COND",
    "DECISION",
    "FIRST_ITERATION",
    "GATHERED",
    "GATHERED_ALONG",
    "GATHERED_NUMBERS",
    "WHILE_LOOP",
]

_LIBRARY = torch.library.Library("opbridge_capture", "FRAGMENT")
_LIBRARY.define("decision(Tensor[] tensors, SymInt[] numbers, Scalar condition, bool answer) -> ()")
_LIBRARY.impl("decision", lambda *args: None, "CompositeExplicitAutograd")

_LIBRARY.define("first_iteration(*, Device? device=None) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
_LIBRARY.impl(  # fake tensors of torch 2.13 give a device to what takes no tensor
    "first_iteration",
    lambda *, device=None: torch.zeros((), dtype=torch.int64, device=device),
    "CompositeExplicitAutograd",
)
_LIBRARY.define(
    "carried(Scalar number, bool floating, *, Device? device=None) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)
_LIBRARY.impl(
    "carried",
    lambda number, floating, *, device=None: torch.empty(
        (), dtype=torch.float64 if floating else torch.int64, device=device
    ),
    "CompositeExplicitAutograd",
)

_LIBRARY.define("gathered(Tensor[] elements, SymInt length, SymInt[] sizes, int[] ends, int loop) -> Tensor")
_LIBRARY.impl(
    "gathered",
    lambda elements, length, *args: elements[0].new_empty((length, *elements[0].shape)),
    "CompositeExplicitAutograd",
)
_LIBRARY.define(
    "gathered_along(Tensor[] elements, SymInt? length, SymInt[] sizes, int[] ends, int loop, int? dim) -> Tensor"
)


@torch.library.register_fake("opbridge_capture::gathered_along", lib=_LIBRARY)
def _gathered_along(elements: Any, length: Any, sizes: Any, ends: Any, loop: int, dim: int | None) -> torch.Tensor:
    shape = [0, *elements[0].shape] if dim is None else list(elements[0].shape)
    shape[dim or 0] = torch.library.get_ctx().new_dynamic_size() if length is None else length
    found: torch.Tensor = elements[0].new_empty(shape)
    return found


_LIBRARY.define(
    "gathered_numbers(SymInt[] elements, SymInt? length, SymInt[] sizes, int[] ends, int loop, int? dim) -> Tensor"
)


@torch.library.register_fake("opbridge_capture::gathered_numbers", lib=_LIBRARY)
def _gathered_numbers(elements: Any, length: Any, *args: Any) -> torch.Tensor:
    return torch.empty((torch.library.get_ctx().new_dynamic_size() if length is None else length,), dtype=torch.int64)


DECISION = torch.ops.opbridge_capture.decision.default
"""Marks the place in a graph at which a truth value was asked for that only data decides, and the answer given.

Its tensors and numbers are what Python's variables hold there.
"""

FIRST_ITERATION = torch.ops.opbridge_capture.first_iteration.default
"""The number of iterations that a loop has had, before the first one: to a capture, a value that data decide."""

CARRIED = torch.ops.opbridge_capture.carried.default
"""A number as a tensor that a capture takes for a value that data decide: each iteration of a loop has another one.

Its arguments are the number, and whether it is a float.
"""

GATHERED = torch.ops.opbridge_capture.gathered.default
"""What the iterations of a loop have appended to a list, as one tensor with a row for each element.

Its arguments are the elements of the iterations of the capture; for any number of iterations, how many there are; the
sizes of an element; how many there are after each iteration; the number of the loop in the run.
"""

GATHERED_ALONG = torch.ops.opbridge_capture.gathered_along.default
"""The same, of elements that differ in one size, joined along that dimension, or of which iterations append other
numbers of them.

The length is that of the result, None where only a run tells it; the size of that dimension is 0. The last argument is
the dimension, None for a new first one.
"""

GATHERED_NUMBERS = torch.ops.opbridge_capture.gathered_numbers.default
"""The same, of elements that are integers of Python's."""

COND = torch.ops.higher_order.cond
WHILE_LOOP = torch.ops.higher_order.while_loop
