"""The capture of all paths that data may make the model take, and of loops over sizes that the example unrolls."""

from __future__ import annotations

import dataclasses

from opbridge.base.torch_private import torch_failures
from opbridge.capture import fixed_sizes
from opbridge.capture.all_paths import capture_paths
from opbridge.capture.captured import Captured, Outcome, SizesContradicted
from opbridge.capture.control_flow import PathsRefused
from opbridge.capture.retries import is_by_loop
from opbridge.capture.strategies.larger_example import as_of_example
from opbridge.capture.strategies.strategy import NoImprovement, Progress, Strategy
from opbridge.capture.tracer.empty_lists import OF_EMPTY_LIST, is_of_empty_list
from opbridge.errors import CaptureError, UsageError

__all__ = ["PATHS"]


def _has_paths(progress: Progress) -> bool:
    failed = progress.failed
    return (
        failed is not None
        and (torch_failures.is_data_dependent(failed.error) or is_by_loop(failed.error))
        and not progress.session.is_for_example
    )


def _of_all_paths(progress: Progress) -> Outcome | NoImprovement:
    """The capture of all paths; else the failure with what stopped it.

    Raises:
        CaptureError: There are too many paths, or they do not end alike.
    """
    failed = progress.failed
    assert failed is not None
    of_sizes = is_by_loop(failed.error)
    try:
        return _deciding(progress, of_sizes=of_sizes)
    except UsageError:
        raise
    except PathsRefused as error:
        if not of_sizes:
            raise CaptureError(str(error)) from error
        return dataclasses.replace(failed, of_paths=error)
    except Exception as error:
        if not of_sizes and (torch_failures.is_data_dependent(error) or isinstance(error, SizesContradicted)):
            # A question that has more than two answers; that of before has two.
            return dataclasses.replace(failed, error=error)
        if isinstance(error, SizesContradicted):  # which is what the first error says
            return _of_larger_example(progress, error, of_sizes=of_sizes) or NoImprovement(error)
        return dataclasses.replace(failed, of_paths=error)


def _deciding(progress: Progress, *, of_sizes: bool) -> Captured:
    """The capture of all paths, with loops over sizes as branches where it needs that."""
    try:
        return capture_paths(progress.session, progress.first, of_sizes=of_sizes)
    except (SizesContradicted, *OF_EMPTY_LIST) as error:
        is_of_loop = is_by_loop(error) if isinstance(error, SizesContradicted) else is_of_empty_list(error)
        if of_sizes or not progress.first.shapes.axes or not is_of_loop:
            raise
    return capture_paths(progress.session, progress.first, of_sizes=True)


def _of_larger_example(progress: Progress, error: SizesContradicted, *, of_sizes: bool) -> Captured | None:
    """The capture of all paths of a larger example, where the model keeps a size of the example; see `fixed_sizes`."""
    session, example = progress.session, progress.first.shapes
    larger = fixed_sizes.with_larger_example(example)
    if not progress.has_named_sizes or larger is None or not fixed_sizes.limiting(error.conditions, example.axes):
        return None
    try:
        found = capture_paths(
            session, dataclasses.replace(progress.first, shapes=larger, example=example), of_sizes=of_sizes
        )
    except (SizesContradicted, PathsRefused):
        return None
    fixes = fixed_sizes.fixes_another_size(found.graph, session.leaves, example.axes)
    return None if fixes else as_of_example(progress, found)


PATHS = Strategy("all paths of branches on data", _has_paths, _of_all_paths)
