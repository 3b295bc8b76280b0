"""Captures a model until every decision has been answered both ways."""

from __future__ import annotations

import dis
import functools
import itertools
from collections.abc import Callable

import torch

from opbridge.base.sources import of_code
from opbridge.base.torch_private.torch_decisions import NoSuchElement
from opbridge.capture.control_flow.branch_oracle import BranchOracle, LoopsSummarized, PathsRefused
from opbridge.capture.control_flow.cfg import ControlFlowGraph
from opbridge.capture.control_flow.execution_path import ExecutionPath
from opbridge.capture.control_flow.indexing import is_of_dict
from opbridge.capture.control_flow.loop_carry import check_loop_carry
from opbridge.capture.control_flow.path_tree import PathTree
from opbridge.capture.control_flow.untaken_answers import UntakenAnswers
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.tracer.empty_lists import is_of_empty_list
from opbridge.capture.tracer.loop_summaries import LoopSummary
from opbridge.capture.tracer.refused_sizes import is_of_sizes
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["Exploration", "explore"]

_OF_NONE = "NoneType"


class Exploration:
    """The executions of a model.

    Args:
        joined: Whether paths are the same again where Python is at the same place and its variables hold the same.
        learned: What earlier executions have shown of the loops.

    Attributes:
        learned: What all executions have shown.
        tree: The paths since the last begin.
        untaken: The answers that are still to be given.
    """

    def __init__(self, *, joined: bool, learned: LoopSummary | None = None) -> None:
        self.learned = learned or LoopSummary()
        self._begin(joined)

    def _begin(self, joined: bool) -> None:
        self.tree = PathTree(joined=joined)
        self.untaken = UntakenAnswers(self.tree, first_answer=self.learned.first_answer)

    @property
    def joined(self) -> bool:
        """Whether paths join."""
        return self.tree.joined

    def forget(self) -> None:
        """Begins again, with what the executions have shown of the loops."""
        self._begin(self.joined)

    def flow(self) -> ControlFlowGraph:
        """The control-flow graph of the paths.

        Raises:
            Unjoined: Paths that seemed to have joined do not do the same.
        """
        return ControlFlowGraph(self.tree, is_strict=self.untaken.has_left_some)


def explore(
    paths: Exploration,
    run: Callable[[BranchOracle], CapturedGraph],
    module: torch.nn.Module,
    limits: CaptureLimits,
    *,
    of_sizes: bool = False,
) -> None:
    """Captures a model until every decision has been answered both ways, with each answer that may come before it.

    Args:
        paths: Those that are known so far: none.
        run: Captures the model with answers, and gives the graph without in-place operators.
        module: The model.
        limits: How many captures there may be, and how long they may take.
        of_sizes: Whether loops over sizes are decisions.

    Raises:
        Unjoined: Paths that seemed to have joined do not do the same.
        PathsRefused: There are too many paths.
        Exception: What the capture of a path raises.
    """
    answers: tuple[bool, ...] = ()
    first: Exception | None = None
    for made in itertools.count():
        if why := limits.why_reached(made, made + paths.tree.least_further()):
            raise PathsRefused(
                f"The model cannot be captured: {why}, at {paths.tree.lines()}. Use torch.where(condition, a, b) if "
                "both values are cheap to compute, or raise the limits with max_captures= and max_capture_seconds= "
                "(--max-captures, --max-capture-seconds)."
            )
        learned, differing, grown = paths.learned.told_apart(), paths.learned.differing(), paths.learned.grown()
        given = BranchOracle(
            module, functools.partial(paths.untaken.chosen, answers), of_sizes=of_sizes, learned=paths.learned
        )
        try:
            graph: CapturedGraph | None = run(given)
        except LoopsSummarized:
            limits.count()
            paths.forget()
            answers = ()
            continue
        except PathsRefused:
            raise
        except Exception as error:
            if given.loops.lists.lacks_elements and not paths.learned.first_answer:
                paths.learned.first_answer = True  # where a condition leaves all elements out, the other answer
                limits.count()
                paths.forget()
                answers, first = (), None
                continue
            if not given.events or not (_lacks_iterations(error, given) or _is_raised_by_model(error)):
                raise
            first = first or error
            graph = None
        else:
            check_loop_carry(given.events)
        limits.count()
        if paths.learned.told_apart() != learned or (paths.tree.paths and paths.learned.differing() != differing):
            paths.forget()
            answers, first = (), None
            continue
        paths.tree.add(given.events, None if graph is None else ExecutionPath.of(graph, given.events), given.again)
        paths.tree.note_given(answers, given.events)
        if graph is None:
            paths.tree.failed.raising.add(answers)
        if made and paths.learned.grown() - grown:
            paths.forget()  # the runs before have taken a list for one that does not grow
            answers = ()
            continue
        untaken = paths.untaken.of_next_run()
        if untaken is None:
            break
        answers = untaken
    if first is not None and (not paths.tree.paths or (paths.joined and paths.untaken.unproven)):
        raise first  # which a run with several iterations of a loop has raised


def _lacks_iterations(error: Exception, answers: BranchOracle) -> bool:
    """Whether a model raises an error where its loops have no iteration.

    One over a size always has one, but for an empty input.
    """
    has_none = any(event.asks and not event.iteration and not event.answer for event in answers.events)
    if has_none and not answers.loops.asked_of_data:
        return True
    if not has_none and not any(event.may_iteration for event in answers.events):
        return False
    return isinstance(error, UnboundLocalError) or is_of_empty_list(error)


_OF_LAYERS = frozenset({"torch.nn.functional", "torch.nn.modules.batchnorm", "torch.nn.modules.instancenorm"})
"""Where torch checks sizes in Python."""


def _is_raised_by_model(error: Exception) -> bool:
    """Whether a model raises an error on a path, and not for want of values.

    It is by a `raise` or an `assert` of the model's, an index that no element has, a number that is no key, or a line
    of the model's that takes None for a value, or a variable without one: what the path has left unset. Or an operator
    refuses the sizes of it, as functions of torch.nn do by a ValueError.
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
    if isinstance(error, UnboundLocalError) or _takes_none(error):
        return True
    if isinstance(error, KeyError) and any(isinstance(each, torch.SymInt) for each in error.args):
        return is_of_dict(trace.tb_frame, trace.tb_lasti)  # all keys of which have been asked about
    instructions = dis.get_instructions(trace.tb_frame.f_code)
    return any(each.offset == trace.tb_lasti and each.opname == "RAISE_VARARGS" for each in instructions)


def _takes_none(error: Exception) -> bool:
    """Whether a line takes None for another value.

    Of an attribute, the error holds the object. Of an operator, a call or an unpacking it holds nothing, and the value
    may be one that no variable has, as in `a, b = f(x)`: CPython's message, which names the type, is all that tells it
    from an operator that does not support a symbolic number.
    """
    if isinstance(error, AttributeError):
        return error.obj is None
    return isinstance(error, TypeError) and _OF_NONE in str(error)
