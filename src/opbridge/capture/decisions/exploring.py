"""Captures a model until every decision has been answered both ways."""

from __future__ import annotations

import dis
import functools
import itertools
from collections.abc import Callable

import torch

from opbridge.base.sources import of_code
from opbridge.base.torch_private.torch_decisions import NoSuchElement
from opbridge.capture.decisions.answers import Answers, LoopsLearned, WaysRefused
from opbridge.capture.decisions.other_turns import refuse_other_turns
from opbridge.capture.decisions.way import Way
from opbridge.capture.decisions.ways import Ways
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.tracer.refused_sizes import is_of_sizes
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["explore"]

_OF_NONE = "NoneType"


def explore(
    ways: Ways,
    run: Callable[[Answers], CapturedGraph],
    module: torch.nn.Module,
    limits: CaptureLimits,
    *,
    of_sizes: bool = False,
) -> None:
    """Captures a model until every decision has been answered both ways, with each answer that may come before it.

    Args:
        ways: Those that are known so far: none.
        run: Captures the model with answers, and gives the graph without in-place operators.
        module: The model.
        limits: How many captures there may be, and how long they may take.
        of_sizes: Whether loops over sizes are decisions.

    Raises:
        Unjoined: Ways that seemed to have joined do not do the same.
        WaysRefused: There are too many ways.
        Exception: What the capture of a way raises.
    """
    answers: tuple[bool, ...] = ()
    first: Exception | None = None
    for made in itertools.count():
        if why := limits.why_reached(made, made + ways.least_further()):
            raise WaysRefused(
                f"The model cannot be captured: {why}, at {ways.lines()}. Use torch.where(condition, a, b) if both "
                "values are cheap to compute, or raise the limits with max_captures= and max_capture_seconds= "
                "(--max-captures, --max-capture-seconds)."
            )
        learned = _learned(ways)
        known = {place for place, count in ways.learned.growth.items() if count}
        given = Answers(module, functools.partial(ways.chosen, answers), of_sizes=of_sizes, learned=ways.learned)
        try:
            graph: CapturedGraph | None = run(given)
        except LoopsLearned:
            limits.count()
            ways.forget()
            answers = ()
            continue
        except WaysRefused:
            raise
        except Exception as error:
            if given.loops.lacks_elements and not ways.learned.first_answer:
                ways.learned.first_answer = True  # where a condition leaves all elements out, the other answer
                limits.count()
                ways.forget()
                answers, first = (), None
                continue
            if not given.marks or not (_is_for_want_of_turns(error, given) or _is_raised_by_model(error)):
                raise
            first = first or error
            graph = None
        else:
            refuse_other_turns(given.marks)
        limits.count()
        if _learned(ways) != learned:
            ways.forget()
            answers, first = (), None
            continue
        ways.add(given.marks, None if graph is None else Way.of(graph, given.marks), given.again)
        if graph is None:
            ways.raising.add(answers)
        if made and any(count and place not in known for place, count in ways.learned.growth.items()):
            ways.forget()  # the runs before have taken a list for one that does not grow
            answers = ()
            continue
        untaken = ways.untaken()
        if untaken is None:
            break
        answers = untaken
    if first is not None and (not ways.ways or (ways.joined and ways.unproven)):
        raise first  # which a run with several turns of a loop has raised


def _learned(ways: Ways) -> tuple[int, int, int, int, bool, bool]:
    """What changes how ways are told apart: what lists grow by, and whether it counts which tensors are one."""
    learned = ways.learned
    of_lists = len(learned.varying), len(learned.nested), len(learned.of_numbers), len(learned.widths)
    return *of_lists, learned.identities.shares, learned.identities.compares_objects


def _is_for_want_of_turns(error: Exception, answers: Answers) -> bool:
    """Whether a model raises an error where its loops have no turn.

    One over a size always has one, but for an empty input.
    """
    has_none = any(mark.asks and not mark.turn and not mark.answer for mark in answers.marks)
    if has_none and not answers.loops.asked_of_data:
        return True
    if not has_none and not any(mark.may_turn for mark in answers.marks):
        return False
    is_of_none = any(text in str(error) for text in ("non-empty", "list index", "at least one tensor"))
    # Some releases of torch assert that there is a tensor to stack.
    kinds = (RuntimeError, IndexError, ValueError, AssertionError)
    return isinstance(error, UnboundLocalError) or (isinstance(error, kinds) and is_of_none)


_OF_LAYERS = frozenset({"torch.nn.functional", "torch.nn.modules.batchnorm", "torch.nn.modules.instancenorm"})
"""Where torch checks sizes in Python."""


def _is_raised_by_model(error: Exception) -> bool:
    """Whether a model raises an error on a way, and not for want of values.

    It is by a `raise` or an `assert` of the model's, an index that no element has, or a line of the model's that takes
    None for a value, or a variable without one: what the way has left unset. Or an operator refuses the sizes of it, as
    functions of torch.nn do by a ValueError.
    """
    if isinstance(error, NoSuchElement) or is_of_sizes(error):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    if of_code(trace.tb_frame.f_code, 0) is None:
        return isinstance(error, ValueError) and trace.tb_frame.f_globals.get("__name__") in _OF_LAYERS
    if isinstance(error, UnboundLocalError) or (
        isinstance(error, (TypeError, AttributeError)) and _OF_NONE in str(error)
    ):
        return True
    instructions = dis.get_instructions(trace.tb_frame.f_code)
    return any(each.offset == trace.tb_lasti and each.opname == "RAISE_VARARGS" for each in instructions)
