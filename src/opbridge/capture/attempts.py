"""The attempts at the capture of a model: the direct capture, with more freedom for sizes, and torch.export's."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from torch.utils import _pytree as pytree

from opbridge.capture import fixed_sizes, other_sides
from opbridge.capture.advice import advise_branch, advise_shapes, is_data_dependent, reason, with_line
from opbridge.capture.all_sizes import of_all_sizes, with_all_sizes, with_fillings
from opbridge.capture.comparing_captures import differs_on_example, is_model, written_out
from opbridge.capture.control_flow import OF_EMPTY_LIST, PathsRefused, capture_paths, is_of_empty_list
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.failed_attempts import dimensions, explained
from opbridge.capture.one_attempt import Attempt, Captured, SizesContradicted
from opbridge.capture.related_sizes import Relation, relation_of, restated
from opbridge.capture.retries import capture_with_retries, is_by_loop, outcome
from opbridge.capture.size_branches import is_same
from opbridge.capture.size_branches.regions import holds
from opbridge.capture.tracer.writes import written_by
from opbridge.errors import CaptureError, UsageError

__all__ = ["capture_by_torch_export", "first_capture", "keeping_functions"]

_Outcome = tuple[Captured | None, Exception | None]
"""The graph, or what was raised."""


def first_capture(attempt: Attempt) -> Captured:
    """The first attempt that succeeds.

    Where the capture requires a relation between dynamic dimensions that the example fulfils, the relation is taken as
    stated in the dynamic shapes, and a note says so; see `related_sizes`. In a strict capture it is an error.

    Raises:
        CaptureError: None does; the message is advice.
        UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
    """
    begun, related = dict(vars(attempt)), list(attempt.notes)
    found, failure = _outcome(attempt)
    while attempt.shapes.axes:
        relation = _relation(attempt, found, failure)
        if relation is None:
            break
        if attempt.strict:
            refused = SizesContradicted([(relation.condition, relation.source)])
            raise CaptureError(advise_shapes(refused, refused.conditions, dimensions(attempt))) from refused
        kept, shapes = dict(vars(attempt)), restated(attempt.shapes, relation)
        vars(attempt).update(begun)
        attempt.start_again("direct")
        attempt.shapes, attempt.notes = shapes, [*related, relation.note()]
        again, error = _outcome(attempt)
        if again is None:
            vars(attempt).update(kept)
            break
        related.append(relation.note())
        found, failure = again, error
    return _one_of(found, failure)


def _relation(attempt: Attempt, found: Captured | None, failure: Exception | None) -> Relation | None:
    """A relation between dimensions that the attempts require, and that can be stated; None where there is none."""
    cause = failure.__cause__ if isinstance(failure, CaptureError) else None
    demands = _demands_of(attempt, found, cause)
    if not demands:
        return None
    if found is not None:
        asked = tuple(each for each in found.graph.conditions if each.by_operator)
        by_operators = dataclasses.replace(found, graph=dataclasses.replace(found.graph, conditions=asked))
        of_operators = frozenset(text for text, _ in _demands_of(attempt, by_operators, None))
    else:
        of_operators = cause.of_operators if isinstance(cause, SizesContradicted) else frozenset()
    return relation_of(demands, of_operators, attempt.shapes)


def _outcome(attempt: Attempt) -> _Outcome:
    """What the attempts give: the graph of the first that succeeds, or why none does."""
    try:
        return _first_capture_with_copies(attempt), None
    except CaptureError as error:
        return None, error


def _first_capture_with_copies(attempt: Attempt) -> Captured:
    """The first attempt that succeeds; with copies where sizes decide whether `contiguous` copies."""
    kept, notes = dict(vars(attempt)), list(attempt.notes)
    try:
        return _first_capture(attempt)
    except Exception:
        if attempt.copying.is_on:
            raise
    vars(attempt).update(kept)  # an attempt has found that copies matter, which the ones before it have taken
    attempt.notes = notes
    return _first_capture(attempt)


def _first_capture(attempt: Attempt) -> Captured:
    if attempt.shapes.needs_torch_export:
        return capture_by_torch_export(attempt)
    try:
        found = _following_sizes(attempt)
        looped = _with_loops(attempt, found)
        if looped is None and not attempt.filling:
            looped = _with_other_sides(attempt, found)
        return with_all_sizes(attempt, looped or found)
    except UsageError:
        raise
    except Exception as error:
        first = error
    notes, attempt.notes = attempt.notes, []
    why = ""
    stopped: Exception | None = None
    of_sizes = is_by_loop(first)
    if (is_data_dependent(first) or of_sizes) and not attempt.is_for_example:
        kept = dict(vars(attempt))
        attempt.start_again("direct")
        attempt.looping = of_sizes
        try:
            return with_all_sizes(attempt, _deciding(attempt))
        except PathsRefused as error:
            if not of_sizes:
                raise CaptureError(str(error)) from error
            vars(attempt).update(kept)
            why = "It cannot be exported as a Loop: " + str(error).removeprefix("The model cannot be captured: ")
        except Exception as error:
            vars(attempt).update(kept)
            if not of_sizes and (is_data_dependent(error) or isinstance(error, SizesContradicted)):
                first = error  # a question that has more than two answers; that of before has two
            elif not isinstance(error, SizesContradicted):  # which is what the first error says
                why, stopped = f"Capturing all branches failed: {_said_of(error)}", error
    if isinstance(first, SizesContradicted) and (decided := of_all_sizes(attempt)) is not None:
        return decided
    if not isinstance(first, CaptureError | SizesContradicted) and not is_data_dependent(first):
        attempt.start_again("non-strict")
        with contextlib.suppress(Exception):
            found = capture_with_retries(attempt)
            attempt.notes.append(f"captured by torch.export, because opbridge's own capture failed: {reason(first)}")
            return found
    attempt.start_again("non-strict")
    attempt.notes = notes
    try:
        return explained(attempt, first)
    except CaptureError as error:
        if not why:
            raise
        if stopped is not None and not of_sizes and (said := advise_branch(stopped, first)) is not None:
            raise CaptureError(said) from stopped
        raise CaptureError(f"{error}\n{why}") from error.__cause__


def _deciding(attempt: Attempt) -> Captured:
    """The capture of all paths that data make a model take, where it needs that with loops over sizes as decisions."""
    try:
        return capture_paths(attempt)
    except (SizesContradicted, *OF_EMPTY_LIST) as error:
        is_of_loop = is_by_loop(error) if isinstance(error, SizesContradicted) else is_of_empty_list(error)
        if attempt.looping or not attempt.shapes.axes or not is_of_loop:
            raise
    notes = attempt.notes
    attempt.start_again("direct")
    attempt.notes, attempt.looping = notes, True
    return capture_paths(attempt)


def _said_of(error: Exception) -> str:
    """What stopped a capture of the sides of decisions, with its line."""
    return with_line(error) if isinstance(error, CaptureError) else reason(error)


def capture_by_torch_export(attempt: Attempt) -> Captured:
    """The capture by torch.export.

    Raises:
        CaptureError: It fails; the message is advice.
        UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
    """
    attempt.start_again("non-strict")
    try:
        return capture_with_retries(attempt)
    except UsageError:
        raise
    except Exception as error:
        return explained(attempt, error)


@contextlib.contextmanager
def keeping_functions(attempt: Attempt) -> Iterator[None]:
    """Around the attempts: classes of torch.autograd.Function that have a `symbolic` stay whole.

    Raises:
        CaptureError: Such a class was defined while the model ran.
    """
    functions = attempt.functions
    with contextlib.ExitStack() as stack:
        if functions.classes:
            stack.enter_context(functions.whole())
            hook = attempt.module.register_forward_pre_hook(functions.start_run)
            stack.callback(hook.remove)
        yield
    traced_through = functions.traced_through()
    if traced_through:
        raise CaptureError(
            f"The class {traced_through[0].__qualname__} has a symbolic function but is defined inside forward(), "
            "so the capture traced through it. Define the class at module level."
        )


def _following_sizes(attempt: Attempt) -> Captured:
    """The direct capture; where Python's own functions fix a size in it, one that keeps the size symbolic.

    1. All Python functions of the model's packages take symbolic sizes; see `tracer.number_calls`.
    2. The example is larger than it is, so that what the model keeps from an earlier run, such as a table and the
       size that it is for, is not for that size; see `fixed_sizes`.
    """
    found, failure = outcome(attempt)
    if not attempt.shapes.axes or attempt.shapes.verify is not None or attempt.is_for_example:
        return _one_of(found, failure)
    demands = _demands_of(attempt, found, failure)
    has_iterations = found is not None and fixed_sizes.unrolls_a_loop(found.graph)  # which `_with_loops` is for
    if found is not None and not has_iterations and (filled_one := with_fillings(attempt, found)) is not None:
        return filled_one
    if fixed_sizes.is_by_python(failure, demands):
        found, failure = _better(attempt, found, failure)
        demands = _demands_of(attempt, found, failure)
    if fixed_sizes.limiting(demands, attempt.shapes.axes):
        larger = fixed_sizes.with_larger_example(attempt.shapes)
        if larger is not None:
            example, kept = attempt.shapes, dict(vars(attempt))
            attempt.example, attempt.shapes = example, larger
            try:
                of_larger, failure_of_larger = _better(attempt, found, failure)
            finally:
                attempt.example, attempt.shapes = None, example
            if of_larger is not None and of_larger is not found and differs_on_example(attempt, of_larger):
                vars(attempt).update(kept)
            else:
                found, failure = of_larger, failure_of_larger
    return _one_of(found, failure)


def _with_loops(attempt: Attempt, found: Captured) -> Captured | None:
    """A capture in which the number of iterations of a loop is a branch, where one has that of the example; or None.

    So it is with `range(x.shape[0] // 2)`, which does not fix the size itself, but what it is computed to; and with a
    loop over `x.split(2)`. A model that returns these parts is another matter: there are as many as in the example.
    """
    if attempt.is_for_example or not attempt.shapes.axes:
        return None
    unrolls = fixed_sizes.unrolls_a_loop(found.graph)
    if not unrolls and not fixed_sizes.splits_by_a_size(found.graph):
        return None
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.notes, attempt.looping = [], True
    if any(map(written_by, found.graph.graph.nodes)):
        attempt.identities.shares = True  # which the first of the captures would find, and the second repeat
    try:
        looped = capture_paths(attempt)
        is_same = looped.graph.structure == found.graph.structure and len(looped.graph.outputs) == len(
            found.graph.outputs
        )
        if not fixed_sizes.unrolls_a_loop(looped.graph) and (unrolls or is_same):
            return looped
    except UsageError:
        raise
    except Exception:  # the loop is none that a file holds, which the conditions of the first capture tell
        pass
    vars(attempt).update(kept)
    return None


def _with_other_sides(attempt: Attempt, found: Captured) -> Captured:
    """A capture of the other sides of the model's questions about sizes, where it is the model on both sides.

    1. The model is captured for sizes on the other side; what it pads there is nothing for the example.
    2. It is captured for the example again; what it pads there is nothing for the sizes on the other side.
    """
    example = shapes = attempt.shapes
    if not shapes.axes or shapes.verify is not None or attempt.is_for_example:
        return found
    for condition, sizes in list(other_sides.of_other_sides(found.graph, example)):
        tried = other_sides.with_sizes(shapes, sizes)
        attempts = [] if " != " in condition.expression else [(tried, example)]
        if other_sides.pads(found.graph):
            attempts.append((shapes, tried))
        for captured, other in attempts:
            kept = dict(vars(attempt))
            padding = other_sides.PaddingNothing(other_sides.sizes_of_symbols(found.graph, other))
            new = _for_sizes(attempt, captured, frozenset(sizes), padding)
            if (
                new is not None
                and (captured is tried or padding.changed)
                and is_model(attempt, written_out(new), tried)
                and other_sides.merged(found.graph, new.graph, example)
            ):
                if is_same(found.graph, new.graph):
                    vars(attempt).update(kept)  # which `with_all_sizes` proves
                    attempt.is_same_elsewhere = True
                else:
                    elsewhere = other_sides.sizes_of_symbols(found.graph, tried)
                    answered = {each.expression for each in found.graph.conditions if not holds([each], elsewhere)}
                    attempt.joined |= answered | {condition.expression}
                    found, shapes = new, captured
                break
            vars(attempt).update(kept)
    return found


def _for_sizes(
    attempt: Attempt, shapes: Shapes, free: frozenset[str], padding: other_sides.PaddingNothing
) -> Captured | None:
    """A capture for other sizes than the example's; None where it fails.

    Args:
        attempt: The attempt, with the shapes of the example, which it has again afterwards.
        shapes: The dynamic shapes with these sizes.
        free: The places of the sizes that stay symbolic.
        padding: What is padded meanwhile.
    """
    example, general = attempt.shapes, attempt.general
    attempt.start_again("direct")
    attempt.general = general  # as the example was captured: the attempt is not made with another
    attempt.notes, attempt.shapes, attempt.example, attempt.other_side = [], shapes, example, free
    try:
        with padding:
            return outcome(attempt)[0]
    except UsageError:  # the model does not run within the mode, as where it compiles a function
        return None
    finally:
        attempt.shapes, attempt.example, attempt.other_side = example, None, frozenset()


def _better(attempt: Attempt, found: Captured | None, failure: Exception | None) -> _Outcome:
    """What a further attempt gives where that leaves the sizes more freedom; else what there is."""
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.following, attempt.notes = True, []
    new, error = outcome(attempt)
    axes = (attempt.example or attempt.shapes).axes
    before, after = _demands_of(attempt, found, failure), _demands_of(attempt, new, error)
    leaves = pytree.tree_leaves((attempt.args, attempt.kwargs))
    is_larger = new is not None and (
        fixed_sizes.fixes_another_size(new.graph, leaves, axes)
        or (attempt.example is not None and fixed_sizes.leaves_out_example(after, axes))
    )
    if (
        new is not None
        and not is_larger
        and (
            found is None
            or len(after) < len(before)
            or len(fixed_sizes.limiting(after, axes, 4)) < len(fixed_sizes.limiting(before, axes))
        )
    ):
        return new, None
    vars(attempt).update(kept)
    is_said_best = isinstance(error, SizesContradicted) and attempt.example is None
    return found, error if found is None and is_said_best else failure


def _demands_of(attempt: Attempt, found: Captured | None, failure: BaseException | None) -> list[Any]:
    """What an attempt needs of the sizes."""
    if found is None:
        return failure.conditions if isinstance(failure, SizesContradicted) else []
    kept = dict(found.graph.ranges)
    demands = attempt.demands(found.graph)
    found.graph.ranges.clear()
    found.graph.ranges.update(kept)
    return demands


def _one_of(found: Captured | None, failure: Exception | None) -> Captured:
    """The graph of an attempt, or what it raised."""
    if failure is not None:
        raise failure
    assert found is not None
    return found
