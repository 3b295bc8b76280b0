"""The direct capture of the model on its example, and with more freedom for sizes.

Where Python's own functions fix a size in the capture of the example, there may be one that keeps the size symbolic:

1. All Python functions of the model's packages take symbolic sizes; see `tracer.number_calls`.
2. The example is larger than it is, so that what the model keeps from an earlier run, such as a table and the size
   that it is for, is not for that size; see `fixed_sizes`.
"""

from __future__ import annotations

import dataclasses

from opbridge.capture import fixed_sizes
from opbridge.capture.assumptions import Assumptions
from opbridge.capture.captured import Captured, Failed, Outcome, SizesContradicted
from opbridge.capture.retries import capture_with_retries, is_by_loop
from opbridge.capture.strategies.larger_example import as_of_example
from opbridge.capture.strategies.strategy import NoImprovement, Progress, Strategy, demands_of

__all__ = ["DIRECT", "LARGER_EXAMPLE", "SYMBOLIC_CALLS"]


def _is_first(progress: Progress) -> bool:
    return (
        progress.outcome is None
        and not progress.first.shapes.needs_torch_export
        and not progress.session.config.by_torch_export
    )


def _capture(progress: Progress) -> Outcome:
    return capture_with_retries(progress.session, progress.first)


DIRECT = Strategy("direct capture", _is_first, _capture)


def _may_be_freed(progress: Progress) -> bool:
    captured = progress.captured
    return progress.has_named_sizes and not (captured is not None and captured.other_sizes.is_padded)


def _is_fixed_by_loop(progress: Progress) -> bool:
    """Whether a loop has fixed a size, as it does in every capture in which it is no branch; see `strategies.paths`."""
    failed = progress.failed
    return failed is not None and is_by_loop(failed.error) and progress.session.unrolls_loops


def _is_fixed_by_python(progress: Progress) -> bool:
    if progress.outcome is None or not _may_be_freed(progress) or _is_fixed_by_loop(progress):
        return False
    graph = None if progress.captured is None else progress.captured.graph
    return fixed_sizes.is_by_python(graph) and (graph is None or bool(progress.demands))


def _with_symbolic_calls(progress: Progress) -> Outcome | NoImprovement:
    return _freed(progress, dataclasses.replace(progress.first, is_following=True))


SYMBOLIC_CALLS = Strategy("symbolic calls of Python functions", _is_fixed_by_python, _with_symbolic_calls)


def _is_fixed_by_example(progress: Progress) -> bool:
    axes = progress.first.shapes.axes
    is_possible = _may_be_freed(progress) and not _is_fixed_by_loop(progress)
    return is_possible and bool(fixed_sizes.limiting(progress.demands, axes))


def _of_larger_example(progress: Progress) -> Outcome | NoImprovement:
    example = progress.first.shapes
    larger = fixed_sizes.with_larger_example(example)
    if larger is None:
        return NoImprovement()
    assumptions = dataclasses.replace(progress.first, is_following=True, shapes=larger, example=example)
    found = _freed(progress, assumptions)
    return (as_of_example(progress, found) or NoImprovement()) if isinstance(found, Captured) else found


LARGER_EXAMPLE = Strategy("larger example", _is_fixed_by_example, _of_larger_example)


def _freed(progress: Progress, assumptions: Assumptions) -> Outcome | NoImprovement:
    """What a further capture gives where that leaves the sizes more freedom."""
    session, before = progress.session, progress.demands
    axes = progress.first.shapes.axes
    found = capture_with_retries(session, assumptions)
    failed = progress.failed
    if isinstance(found, Failed):
        is_said_better = isinstance(found.error, SizesContradicted) and assumptions.example is None
        if failed is not None and is_said_better:
            return dataclasses.replace(failed, error=found.error)
        return NoImprovement(found.error)
    after = demands_of(session, found)
    if fixed_sizes.fixes_another_size(found.graph, session.leaves, axes):
        return NoImprovement()
    is_freer = (
        failed is not None
        or len(after) < len(before)
        or len(fixed_sizes.limiting(after, axes, 4)) < len(fixed_sizes.limiting(before, axes))
    )
    return found if is_freer else NoImprovement()
