"""The attempts at the capture of a model: the direct capture, with more freedom for sizes, and torch.export's."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.sources import raised_at
from opbridge.base.torch_private import torch_tracing
from opbridge.capture import fixed_sizes, other_sides
from opbridge.capture.advice import is_data_dependent, reason
from opbridge.capture.decisions import WaysRefused, capture_decisions
from opbridge.capture.decisions.answers import Answers
from opbridge.capture.decisions.merging import Merged
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.failed_attempts import explained
from opbridge.capture.functionalize import functionalize
from opbridge.capture.model_state import ModelState
from opbridge.capture.one_attempt import Attempt, Captured, SizesContradicted
from opbridge.capture.retries import capture_with_retries
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.size_constraints import contradictions
from opbridge.capture.size_decisions import WayOfSizes, WaysOfSizes, asked_zeros, capture_sides, filled, is_same
from opbridge.capture.size_decisions.filling import ContinuedPadding
from opbridge.capture.size_decisions.regions import holds, is_trivial
from opbridge.capture.tracer.writes import written_by
from opbridge.errors import CaptureError, UsageError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.open_lists import open_lists, with_open_lists

__all__ = ["capture_by_torch_export", "first_capture", "keeping_functions"]

_Outcome = tuple[Captured | None, Exception | None]
"""The graph, or what was raised."""


def first_capture(attempt: Attempt) -> Captured:
    """The first attempt that succeeds.

    Raises:
        CaptureError: None does; the message is advice.
        UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
    """
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
        return _with_all_sizes(attempt, looped or found)
    except UsageError:
        raise
    except Exception as error:
        first = error
    notes, attempt.notes = attempt.notes, []
    why = ""
    of_sizes = _is_by_loop(first)
    if (is_data_dependent(first) or of_sizes) and not attempt.is_for_example:
        kept = dict(vars(attempt))
        attempt.start_again("direct")
        attempt.looping = of_sizes
        try:
            return _with_all_sizes(attempt, _deciding(attempt))
        except WaysRefused as error:
            if not of_sizes:
                raise CaptureError(str(error)) from error
            vars(attempt).update(kept)
            why = f"It does not become a loop of the file: {error}"
        except Exception as error:
            vars(attempt).update(kept)
            if not of_sizes and (is_data_dependent(error) or isinstance(error, SizesContradicted)):
                first = error  # a question that has more than two answers; that of before has two
            else:
                why = f"The capture of all sides of its decisions stops: {_said_of(error)}"
    if isinstance(first, SizesContradicted) and (decided := _of_all_sizes(attempt)) is not None:
        return decided
    if not isinstance(first, CaptureError | SizesContradicted) and not is_data_dependent(first):
        attempt.start_again("non-strict")
        with contextlib.suppress(Exception):
            found = capture_with_retries(attempt)
            attempt.notes.append(f"captured by torch.export, as the direct capture stops: {reason(first)}")
            return found
    attempt.start_again("non-strict")
    attempt.notes = notes
    try:
        return explained(attempt, first)
    except CaptureError as error:
        if not why:
            raise
        raise CaptureError(f"{error}\n{why}") from error.__cause__


def _deciding(attempt: Attempt) -> Captured:
    """The capture of all ways that data make a model take, where it needs that with loops over sizes as decisions."""
    try:
        return capture_decisions(attempt)
    except SizesContradicted as error:
        if attempt.looping or not _is_by_loop(error):
            raise
    notes = attempt.notes
    attempt.start_again("direct")
    attempt.notes, attempt.looping = notes, True
    return capture_decisions(attempt)


def _said_of(error: Exception) -> str:
    """What stopped a capture of the sides of decisions, with its line."""
    if not isinstance(error, CaptureError):
        return reason(error)
    line = raised_at(error)
    return f"{error} (at {line})" if line else str(error)


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
            f"The class {traced_through[0].__qualname__}, whose symbolic is to be used, is defined while the model "
            "runs, and was traced through. Define it at the top of its module."
        )


def _following_sizes(attempt: Attempt) -> Captured:
    """The direct capture; where Python's own functions fix a size in it, one that keeps the size symbolic.

    1. All Python functions of the model's packages take symbolic sizes; see `tracer.number_calls`.
    2. The example is larger than it is, so that what the model keeps from an earlier run, such as a table and the
       size that it is for, is not for that size; see `fixed_sizes`.
    """
    found, failure = _outcome(attempt)
    if not attempt.shapes.axes or attempt.shapes.verify is not None or attempt.is_for_example:
        return _one_of(found, failure)
    demands = _demands_of(attempt, found, failure)
    has_turns = found is not None and fixed_sizes.unrolls_a_loop(found.graph)  # which `_with_loops` is for
    if found is not None and not has_turns and (filled_one := _filled(attempt, found)) is not None:
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
            if of_larger is not None and of_larger is not found and _differs_on_example(attempt, of_larger):
                vars(attempt).update(kept)
            else:
                found, failure = of_larger, failure_of_larger
    return _one_of(found, failure)


def _filled(attempt: Attempt, found: Captured) -> Captured | None:
    """A capture that is the model for both answers to the questions about remainders; None where there is none."""
    if not attempt.shapes.axes or attempt.shapes.verify is not None or attempt.is_for_example:
        return None
    if attempt.effects is not None and attempt.effects.drew:
        return None
    graph = _filled_graph(attempt, found.graph, attempt.shapes)
    leaves = pytree.tree_leaves((attempt.args, attempt.kwargs))
    if graph is None or contradictions(graph, leaves, attempt.shapes.axes, 1):
        return None
    attempt.filling = attempt.general = True
    return Captured(graph, lambda: graph)


def _filled_graph(
    attempt: Attempt, graph: CapturedGraph, shapes: Shapes, *, is_continued: bool = False
) -> CapturedGraph | None:
    """The graph of both answers to questions about remainders, for the sizes of a capture; None where there is none.

    Args:
        attempt: The attempt, with the shapes of the example.
        graph: The capture.
        shapes: The dynamic shapes with its sizes.
        is_continued: Whether it was made within `ContinuedPadding`.
    """
    leaves, structure = pytree.tree_flatten((attempt.args, attempt.kwargs))
    kept = dict(vars(attempt))

    def capture(shapes: Shapes, context: contextlib.AbstractContextManager[Any]) -> CapturedGraph | None:
        with context:
            return _for_other_sizes(attempt, shapes)

    def agrees(other: CapturedGraph | None, values: list[Any]) -> bool | None:
        return _agrees(attempt, other, values, structure)

    try:
        return filled(graph, leaves, shapes, capture, agrees, attempt.limits, is_continued=is_continued)
    finally:
        vars(attempt).update(kept)


def _with_loops(attempt: Attempt, found: Captured) -> Captured | None:
    """Where a capture has the turns of a loop as the example does, one in which their number is a decision, or None.

    So it is with `range(x.shape[0] // 2)`, which does not fix the size itself, but what it is computed to.
    """
    if attempt.is_for_example or not attempt.shapes.axes or not fixed_sizes.unrolls_a_loop(found.graph):
        return None
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.notes, attempt.looping = [], True
    if any(map(written_by, found.graph.graph.nodes)):
        attempt.identities.shares = True  # which the first of the captures would find, and the second repeat
    try:
        looped = capture_decisions(attempt)
        if not fixed_sizes.unrolls_a_loop(looped.graph):
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
                and _is_model(attempt, _written_out(new), tried)
                and other_sides.merged(found.graph, new.graph, example)
            ):
                if is_same(found.graph, new.graph):
                    vars(attempt).update(kept)  # which `_with_all_sizes` proves
                    attempt.is_same_elsewhere = True
                else:
                    elsewhere = other_sides.sizes_of_symbols(found.graph, tried)
                    answered = {each.expression for each in found.graph.conditions if not holds([each], elsewhere)}
                    attempt.joined |= answered | {condition.expression}
                    found, shapes = new, captured
                break
            vars(attempt).update(kept)
    return found


def _with_all_sizes(attempt: Attempt, found: Captured) -> Captured:
    """A capture; where the model asks for sizes, one for the sizes on the other sides as well, if there is one."""
    if not attempt.shapes.axes or (attempt.effects is not None and attempt.effects.drew):
        return found
    axes = other_sides.plain_axes(found.graph, attempt.shapes)
    ranges = {symbol: (max(axis.low or 0, 1), axis.high) for symbol, axis in axes.items()}
    is_open = bool(asked_zeros(found.graph, axes)) or any(
        each.expression not in attempt.joined and axes.keys() & set(each.symbols) and not is_trivial(each, ranges)
        for each in found.graph.conditions
    )
    if not is_open:
        return found
    graph = found.graph
    asked = tuple(each for each in graph.conditions if each.expression not in attempt.joined)
    example = (
        graph
        if attempt.filling
        else None
        if attempt.is_same_elsewhere
        else dataclasses.replace(graph, conditions=asked)
    )
    return _of_all_sizes(attempt, example) or found


def _of_all_sizes(attempt: Attempt, example: CapturedGraph | None = None) -> Captured | None:
    """A capture that decides by sizes as the model does; None where there is none, and the attempt is as before.

    Args:
        attempt: The attempt.
        example: The capture of the example, where there is one.
    """
    leaves, structure = pytree.tree_flatten((attempt.args, attempt.kwargs))
    if attempt.is_for_example or attempt.shapes.verify is not None:
        return None
    kept, raising, notes = dict(vars(attempt)), list(attempt.raising or ()), list(attempt.notes)

    def capture(shapes: Shapes) -> CapturedGraph | None:
        if attempt.filling and shapes is attempt.shapes:
            return example
        found = None
        if attempt.filling:
            with ContinuedPadding():
                continued = _for_other_sizes(attempt, shapes)
            found = continued and _filled_graph(attempt, continued, shapes, is_continued=True)
        if found is None:
            found = _for_other_sizes(attempt, shapes)
        raising.extend(each for each in attempt.raising or () if each not in raising)
        notes.extend(each for each in attempt.notes if each not in notes)
        return found

    is_right: list[bool] = []  # for the sizes tried, where a graph was compared

    def agrees(graph: CapturedGraph | None, values: list[Any]) -> bool | None:
        found = _agrees(attempt, graph, values, structure)
        is_right.append(graph is not None and bool(found))
        return found

    ways = None if attempt.looping or attempt.filling else _ways_of(attempt)
    try:
        graph = capture_sides(leaves, attempt.shapes, capture, agrees, attempt.limits, attempt.with_one, ways, example)
    finally:
        vars(attempt).update(kept)
    if graph is None or contradictions(graph, leaves, attempt.shapes.axes, 1):
        # With a capture of the example, its graph is compared first, for sizes of 1 that it asks about.
        attempt.is_right_for_one = example is not None and bool(is_right) and all(is_right)
        return None
    attempt.notes, attempt.raising, attempt.general = notes, tuple(raising), True
    return Captured(graph, lambda: graph)


def _ways_of(attempt: Attempt) -> WaysOfSizes:
    """How ways of a model are captured that join again."""
    free = frozenset(axis.place for axis in attempt.shapes.axes.values())

    def capture(shapes: Shapes, answers: Answers) -> WayOfSizes:
        with _for_sizes_of_ways(attempt, shapes, free), keeping_random_state(), SideEffects(attempt.module):
            attempt.answers = answers
            try:
                found = attempt.capture_once()
                rewritten = found.rewrite()
            finally:
                answers.restore()
        known = {each.expression for each in found.graph.conditions}
        further = tuple(each for each in rewritten.conditions if each.expression not in known)
        return WayOfSizes(rewritten, further)

    def merge(merged: Merged) -> CapturedGraph:
        with _for_sizes_of_ways(attempt, attempt.shapes, free):
            attempt.merged = merged
            return attempt.capture_once().graph

    return WaysOfSizes(attempt.module, capture, merge)


@contextlib.contextmanager
def _for_sizes_of_ways(attempt: Attempt, shapes: Shapes, free: frozenset[str]) -> Iterator[None]:
    """Within this context, an attempt is for the sizes of other shapes, none of which is fixed."""
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.notes, attempt.shapes, attempt.by_size, attempt.other_side, attempt.following = [], shapes, True, free, True
    try:
        with torch_tracing.mute_export():
            yield
    finally:
        vars(attempt).update(kept)


def _is_by_loop(failure: Exception | None) -> bool:
    """Whether a loop of the model's fixes a size."""
    if not isinstance(failure, SizesContradicted):
        return False
    return failure.unrolls or fixed_sizes.is_by_loop(failure.conditions)


def _for_other_sizes(attempt: Attempt, shapes: Shapes) -> CapturedGraph | None:
    """A capture for the sizes of other shapes, without in-place operators; None where it fails."""
    example = attempt.shapes
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.notes, attempt.raising, attempt.shapes, attempt.by_size = [], None, shapes, True
    attempt.other_side = frozenset(axis.place for axis in example.axes.values() if other_sides.is_plain(axis))
    try:
        with keeping_random_state():
            found, failure = (None, None) if attempt.looping else _outcome(attempt)
            attempt.looping = attempt.looping or _is_by_loop(failure)
            if attempt.looping or (failure is not None and is_data_dependent(failure)):
                attempt.start_again("direct")
                found = capture_decisions(attempt)
        if found is None:
            return None
        functional = functionalize(found.graph, frozenset(), found.rewrite)
        rewritten = found.rewrite() if functional.rebinds else functional.graph
        known = {each.expression for each in found.graph.conditions}
        further = (each for each in rewritten.conditions if each.expression not in known)
        return dataclasses.replace(rewritten, conditions=(*found.graph.conditions, *further))
    except Exception:  # whatever the model or torch raises for these sizes
        return None
    finally:
        notes, raising = attempt.notes, attempt.raising
        vars(attempt).update(kept)
        attempt.notes, attempt.raising = notes, raising


def _agrees(attempt: Attempt, graph: CapturedGraph | None, leaves: list[Any], structure: Any) -> bool | None:
    """Whether a capture gives what the model gives on some inputs; None where the model raises an error."""
    with keeping_random_state(), torch.set_grad_enabled(attempt.grad):
        try:
            expected, drew = _eager_results(attempt.module, leaves, structure, graph)
        except Exception:  # a model raises anything for sizes that it does not take
            return None
        if graph is None:
            return True
        try:
            found = other_sides.results(graph, _copied(leaves))
        except Exception:  # an operator raises for these sizes
            return False
        return drew or other_sides.agree(expected, found)


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
            return _outcome(attempt)[0]
    except UsageError:  # the model does not run within the mode, as where it compiles a function
        return None
    finally:
        attempt.shapes, attempt.example, attempt.other_side = example, None, frozenset()


def _differs_on_example(attempt: Attempt, captured: Captured) -> bool:
    """Whether a capture of a larger example does not give what the model gives for the sizes of the example itself."""
    graph = _written_out(captured)
    leaves, structure = pytree.tree_flatten((attempt.args, attempt.kwargs))
    return any(
        _gives_same(attempt, graph, values, structure) is False
        for values in (leaves, other_sides.of_other_values(leaves))
    )


def _written_out(captured: Captured) -> CapturedGraph:
    """The graph to compare with the model: without writes, as in the file.

    Where a size decides whether a tensor is written to or a copy of it, an operator does as torch does when it runs.
    """
    return captured.rewrite() if any(map(written_by, captured.graph.graph.nodes)) else captured.graph


def _is_model(attempt: Attempt, graph: CapturedGraph, shapes: Shapes) -> bool:
    """Whether a capture gives what the model gives on the example, on one of twice its sizes, and on one of others.

    Args:
        attempt: The attempt, with the shapes of the example.
        graph: The capture.
        shapes: The dynamic shapes of the other sizes.
    """
    leaves, structure = pytree.tree_flatten((attempt.args, attempt.kwargs))
    if fixed_sizes.fixes_another_size(graph, leaves, attempt.shapes.axes):
        return False
    further = [
        other_sides.of_other_values(leaves),
        other_sides.twice(leaves, attempt.shapes),
        other_sides.of_sizes(leaves, shapes),
    ]
    return _gives_same(attempt, graph, leaves, structure) is True and not any(
        _gives_same(attempt, graph, values, structure) is False for values in further
    )


def _gives_same(attempt: Attempt, graph: CapturedGraph, leaves: list[Any], structure: Any) -> bool | None:
    """Whether a capture and the model give the same on some inputs.

    None where that cannot be said: the model refuses them, its results are random, or it gives nothing but zeros.
    """
    with keeping_random_state(), torch.set_grad_enabled(attempt.grad):
        try:
            expected, drew = _eager_results(attempt.module, leaves, structure, graph)
            if drew and not other_sides.agree(expected, _eager_results(attempt.module, leaves, structure, graph)[0]):
                return None
        except Exception:  # a model raises anything for sizes that it does not take
            return None
        if not any(isinstance(each, torch.Tensor) and bool(each.any()) for each in expected):
            return None
        try:
            return other_sides.agree(expected, other_sides.results(graph, _copied(leaves)))
        except Exception:  # an operator raises for these sizes
            return False


def _eager_results(
    module: torch.nn.Module, leaves: list[Any], structure: Any, graph: CapturedGraph | None
) -> tuple[list[Any], bool]:
    """What the model gives on some inputs, leaf by leaf as a capture does, and whether it drew random numbers."""
    lists = {} if graph is None else open_lists(graph.structure)
    drawn = torch.get_rng_state()
    with SideEffects(module) as effects, ModelState(module), torch_tracing.in_onnx_export():
        args, kwargs = pytree.tree_unflatten(_copied(leaves), structure)
        found = pytree.tree_leaves(with_open_lists(module(*args, **kwargs), lists))
    return found, effects.drew or not torch.equal(drawn, torch.get_rng_state())


def _copied(leaves: list[Any]) -> list[Any]:
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in leaves]


def _outcome(attempt: Attempt) -> _Outcome:
    """What an attempt gives: the graph, or what it raises."""
    try:
        return capture_with_retries(attempt), None
    except UsageError:
        raise
    except Exception as error:
        return None, error


def _better(attempt: Attempt, found: Captured | None, failure: Exception | None) -> _Outcome:
    """What a further attempt gives where that leaves the sizes more freedom; else what there is."""
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.following, attempt.notes = True, []
    new, error = _outcome(attempt)
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


def _demands_of(attempt: Attempt, found: Captured | None, failure: Exception | None) -> list[Any]:
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
