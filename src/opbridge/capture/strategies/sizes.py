"""Captures that are valid for sizes on which the model takes another branch than on the example."""

from __future__ import annotations

import dataclasses

from opbridge.base.own_faults import raise_own_fault
from opbridge.capture import fixed_sizes, other_branches
from opbridge.capture.all_paths import capture_paths
from opbridge.capture.all_sizes import asks_for_sizes, of_all_sizes, with_all_sizes, with_continued_padding
from opbridge.capture.captured import Captured, Outcome, SizesContradicted
from opbridge.capture.comparing_captures import is_model
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.guards.conditions import hold
from opbridge.capture.guards.expressions import operators_in
from opbridge.capture.retries import capture_with_retries
from opbridge.capture.same_graph import is_same_graph
from opbridge.capture.strategies.strategy import NoImprovement, Progress, Strategy
from opbridge.capture.tracer.long_sizes import refusing_long_sizes
from opbridge.capture.tracer.writes import written_by
from opbridge.errors import CaptureError, UsageError

__all__ = ["LOOPS", "OTHER_BRANCH", "PADDING", "SIZE_BRANCHES"]


def _may_pad(progress: Progress) -> bool:
    captured = progress.captured
    return (
        captured is not None
        and progress.has_named_sizes
        and not captured.draws
        and not fixed_sizes.may_unroll_a_loop(captured.graph)  # which `LOOPS` is for
    )


def _padded(progress: Progress) -> Outcome | NoImprovement:
    """A capture that is valid for both answers to the model's conditions on remainders, such as `n % 4 == 0`."""
    assert progress.captured is not None
    return with_continued_padding(progress.session, progress.captured) or NoImprovement()


PADDING = Strategy("padding for both answers", _may_pad, _padded)


def _repeats_by_a_size(progress: Progress) -> bool:
    captured = progress.captured
    if captured is None or not progress.first.shapes.axes or progress.session.is_for_example:
        return False
    return fixed_sizes.may_unroll_a_loop(captured.graph) or fixed_sizes.splits_by_a_size(captured.graph)


def _with_loops(progress: Progress) -> Outcome | NoImprovement:
    """A capture in which the number of iterations of a loop is a branch, where one has that of the example.

    So it is with `range(x.shape[0] // 2)`, which does not fix the size itself, but what it is computed to; and with a
    loop over `x.split(2)`. A model that returns these parts is another matter: there are as many as in the example.
    """
    session, captured = progress.session, progress.captured
    assert captured is not None
    if any(map(written_by, captured.graph.graph.nodes)):
        session.identities.shares = True  # which the first of the captures would find, and the second repeat
    try:
        looped = capture_paths(session, captured.assumptions.restarted(), of_sizes=True)
    except UsageError:
        raise
    except Exception as error:  # the loop is none that a file holds, which the conditions of the capture tell
        raise_own_fault(error)
        if isinstance(error, CaptureError) and fixed_sizes.may_unroll_a_loop(captured.graph):
            reason = str(error).partition("\n")[0].removeprefix("The model cannot be captured: ")
            return dataclasses.replace(captured, no_loop=reason)
        return NoImprovement(error)
    if fixed_sizes.may_unroll_a_loop(looped.graph):
        return NoImprovement()
    returns_same = looped.graph.structure == captured.graph.structure
    returns_as_many = len(looped.graph.outputs) == len(captured.graph.outputs)
    is_unrolled = fixed_sizes.may_unroll_a_loop(captured.graph)
    return looped if is_unrolled or (returns_same and returns_as_many) else NoImprovement()


LOOPS = Strategy("loops over sizes", _repeats_by_a_size, _with_loops)


def _may_have_other_branch(progress: Progress) -> bool:
    captured = progress.captured
    return captured is not None and progress.has_named_sizes and captured.unrolls and not captured.other_sizes.is_padded


def _of_other_branch(progress: Progress) -> Outcome | NoImprovement:
    """A capture of the other branches of the model's conditions on sizes, where it is the model on both branches.

    1. The model is captured for sizes of the other branch; what it pads there is nothing for the example.
    2. It is captured for the example again; what it pads there is nothing for the sizes of the other branch.
    """
    assert progress.captured is not None
    example, found = progress.first.shapes, progress.captured
    shapes = example
    for condition, sizes in list(other_branches.with_other_branches(found.graph, example)):
        tried = other_branches.with_sizes(shapes, sizes)
        attempts = [] if "!=" in operators_in(condition.expression) else [(tried, example)]
        if other_branches.pads(found.graph):
            attempts.append((shapes, tried))
        for captured, other in attempts:
            padding = other_branches.PaddingNothing(other_branches.sizes_of_symbols(found.graph, other))
            new = _for_sizes(progress, found, captured, frozenset(sizes), padding)
            if (
                new is None
                or not (captured is tried or padding.changed)
                or not is_model(progress.session, new, example, tried)
                or not other_branches.merged(found.graph, new.graph, example)
            ):
                continue
            known = found.other_sizes
            if is_same_graph(found.graph, new.graph):  # which `SIZE_BRANCHES` proves
                found = dataclasses.replace(found, other_sizes=dataclasses.replace(known, is_same=True))
            else:
                elsewhere = other_branches.sizes_of_symbols(found.graph, tried)
                answered = {each.expression for each in found.graph.conditions if not hold([each], elsewhere)}
                known = dataclasses.replace(known, answered=known.answered | answered | {condition.expression})
                found, shapes = dataclasses.replace(new, other_sizes=known), captured
            break
    return NoImprovement() if found is progress.captured else found


def _for_sizes(
    progress: Progress, found: Captured, shapes: Shapes, free: frozenset[str], padding: other_branches.PaddingNothing
) -> Captured | None:
    """A capture for other sizes than the example's, with the example's shapes; None where it fails.

    Args:
        progress: What there is.
        found: The capture of the example.
        shapes: The dynamic shapes with these sizes.
        free: The places of the sizes that stay symbolic.
        padding: What is padded meanwhile.
    """
    example, of_example = progress.first.shapes, found.assumptions
    assumptions = dataclasses.replace(
        of_example.restarted(), is_general=of_example.is_general, shapes=shapes, example=example, free=free
    )
    try:
        with padding, refusing_long_sizes():
            new = capture_with_retries(progress.session, assumptions)
    except UsageError:  # the model does not run within the mode, as where it compiles a function
        return None
    if not isinstance(new, Captured):
        return None
    of_new = dataclasses.replace(new.assumptions, shapes=example, example=None, free=frozenset())
    return dataclasses.replace(new, assumptions=of_new)


OTHER_BRANCH = Strategy("other branch of a condition on sizes", _may_have_other_branch, _of_other_branch)


def _has_size_branches(progress: Progress) -> bool:
    if not progress.has_named_sizes:
        return False
    captured, failed = progress.captured, progress.failed
    if captured is not None:
        return not captured.draws and asks_for_sizes(captured)
    return failed is not None and isinstance(failed.error, SizesContradicted)


def _with_size_branches(progress: Progress) -> Outcome | NoImprovement:
    """A capture that decides by sizes as the model does."""
    if progress.captured is not None:
        return with_all_sizes(progress.session, progress.captured)
    assert progress.failed is not None
    return of_all_sizes(progress.session, progress.failed) or NoImprovement()


SIZE_BRANCHES = Strategy("branches on sizes", _has_size_branches, _with_size_branches)
