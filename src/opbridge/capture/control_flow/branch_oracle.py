"""The answers that one run of the model gets to its questions about data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from opbridge.base.python_private.loops import for_loops
from opbridge.base.sources import Source
from opbridge.base.torch_private import torch_decisions
from opbridge.base.torch_private.torch_branch_operators import DECISION
from opbridge.capture.control_flow.carried_numbers import CarriedNumbers
from opbridge.capture.control_flow.indexing import elements_asked_for
from opbridge.capture.control_flow.known_answers import AskedPlaces
from opbridge.capture.control_flow.operand_stack import handles_errors
from opbridge.capture.control_flow.program_points import frames_between, is_the_models
from opbridge.capture.control_flow.python_state import PythonState
from opbridge.capture.control_flow.state import State
from opbridge.capture.control_flow.while_loops import WhileLoops, is_asked_in_loop
from opbridge.capture.tracer.loop_summaries import LoopSummary
from opbridge.capture.tracer.symbolic_loops import Loops
from opbridge.errors import CaptureError

__all__ = ["BranchEvent", "BranchOracle", "LoopsSummarized", "PathsRefused"]

_MOST_DECISIONS = 128
_MOST_EVENTS = 4096


class LoopsSummarized(BaseException):
    """A run has shown of a loop what it needs to know from its begin; no handler of the model's takes it."""


class PathsRefused(CaptureError):
    """A model decides by data in a manner that one graph cannot represent."""


@dataclass(frozen=True)
class BranchEvent:
    """A decision that a run has come to.

    Attributes:
        place: Where Python was, and what its variables held, but for values of the graph.
        answer: The answer that it got.
        sources: The lines that were running, the innermost first.
        leaves: How many values of the graph its variables held.
        loop: Which loop of the run it begins an iteration of; None for any other decision.
        iteration: How many iterations that loop has had.
        unseen: What else Python held there; None where that is not known.
        asks: Whether the loop asks by it whether there is a further iteration, which it has after the answer True.
        may_iteration: Whether it may be asked in each iteration of a loop that no sequence counts.
        is_last_element: Whether the model raises an error after the answer False, as an index is that of no element.
        is_known: Whether the run knows the answer itself; see `known_answers`.
    """

    place: Hashable
    answer: bool
    sources: tuple[Source, ...]
    leaves: int
    loop: int | None = None
    iteration: int = 0
    unseen: Hashable = None
    asks: bool = False
    may_iteration: bool = False
    is_last_element: bool = False
    is_known: bool = False


class BranchOracle:
    """Answers the questions of one run.

    Args:
        module: The model.
        choose: Gives an answer, for the decisions so far, the place of the next one, and, where a loop asks by it
            whether there is a further iteration, how many it has had, and whether it is a loop of a later iteration of
            another.
        of_sizes: Whether loops over sizes ask so, and not only those whose number of iterations data decide.
        learned: What earlier runs have shown of the loops; this one adds to it.
        sizes: Where questions about sizes are decisions: which of them; see `size_branches.path_conditions`.

    Attributes:
        sizes: The same.
        events: The decisions so far.
        loops: The loops that ask.
        state: What Python holds.
        outermost: The frame in which the model is called.
        again: The uses of earlier answers: the decision, None for any, and how many decisions there were.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        choose: Callable[[Sequence[BranchEvent], Hashable, int | None, bool], bool],
        *,
        of_sizes: bool = False,
        learned: LoopSummary | None = None,
        sizes: Any = None,
    ) -> None:
        self.sizes = sizes
        self._times: dict[Hashable, int] = {}
        self._expressions: dict[Any, int] = {}
        self.again: list[tuple[int | None, int]] = []
        self._choose = choose
        self.loops = Loops(of_sizes=of_sizes, learned=learned or LoopSummary())
        self.state = PythonState(module, self.loops)
        self._numbers = CarriedNumbers(self.loops.learned)
        self._while_loops = WhileLoops(self.loops)
        self.events: list[BranchEvent] = []
        self._knows = AskedPlaces(self.loops.learned.asked) if self.loops.learned.asked else None
        self.outermost: FrameType | None = None

    def elements_asked_for(self) -> int | None:
        """How many elements a list has of which Python asks for the index of one; None where it asks for no index."""
        return None if self.outermost is None else elements_asked_for(self.outermost)

    def note_again(self, question: Any) -> None:
        """Notes that a question, given as an expression or as a constant, was answered by an earlier answer."""
        self.again.append((self._expressions.get(question), len(self.events)))

    def answer(
        self,
        recorder: Any,
        condition: torch.SymBool | bool,
        outermost: FrameType,
        sources: tuple[Source, ...],
        element: tuple[int, int] | None = None,
        question: Hashable = None,
        given: bool | None = None,
        of_operator: int = 0,
        *,
        is_known: bool = False,
    ) -> bool:
        """The answer to a question, which the graph gets an event of.

        Args:
            recorder: What records the graph.
            condition: The question.
            outermost: The frame in which the model is called.
            sources: The lines that were running, the innermost first.
            element: Where it is whether an index is that of an element of a list: which one, and of how many.
            question: Where it is about sizes: what tells it from others at the same place.
            given: The answer, where it is known.
            of_operator: Where an operator asks, or the lookup of a size in a table: which of its questions it is,
                counted from 1.
            is_known: Whether the run knows the answer that is given.
        """
        asking = self.loops.asking
        self.loops.made.clear()
        if len(self.events) >= _MOST_EVENTS or (asking is None and self._has_decided_enough()):
            if self._has_new_range(outermost):
                raise LoopsSummarized
            raise PathsRefused(
                f"The model cannot be captured: it evaluates more than {_MOST_DECISIONS} data-dependent conditions "
                f"in one run, for example at {sources[0] if sources else 'its first line'}. In a loop, let only "
                "tensors change between iterations: count in a tensor, or use torch.while_loop."
            )
        frames = _frames(outermost)
        self.loops.forget_left()
        if asking is not None:
            self.state.iterations.begin_iteration(asking.frame, asking.offset)
            for outer in asking.span.outers():
                self.state.iterations.begin_iteration(outer.frame, outer.first)
        at = self.state.point(frames)
        if self.loops.lists.has_learned or (asking is None and self._while_loops.are_new(frames, at)):
            raise LoopsSummarized
        loop = asking or self._while_loops.at(frames, at, recorder)
        held, carried = self.state.at(frames, recorder), self.state.iterations.carried
        tensors = self.loops.counters() + [each for each in held.leaves if isinstance(each, torch.Tensor)]
        numbers = [each for each in held.leaves if not isinstance(each, torch.Tensor)]
        tensors += [carried[id(each)][1] for each in numbers if id(each) in carried]
        asked = element if question is None else question
        here = _place(at, (of_operator or None) if asked is None else asked, held)
        if question is not None:
            times = self._times[here] = self._times.get(here, -1) + 1
            if times and self.events[-1].place == ((at, (question, times - 1)), held.structure):
                self._times[here] -= 1
                return bool(given)  # asked again before anything else was
            here = ((at, (question, times)), held.structure)
        if self._numbers.are_new(frames, here[0], asking is not None):
            raise LoopsSummarized
        is_last = element is not None and element[0] == element[1] - 1 and not handles_errors(frames)
        if given is None:
            chosen = is_last or self._choose(
                self.events,
                here,
                None if asking is None else asking.iteration,
                self.loops.is_in_later_iteration(asking),
            )
        else:
            chosen = given
        recorder.record(DECISION, (tensors, numbers, condition, chosen), {})
        number, iteration = (None, 0) if loop is None else (loop.number, loop.iteration)
        if not is_known:
            self._expressions[torch_decisions.expression_of(condition)] = len(self.events)
        if element is None and given is None:
            self.state.note_asked(condition)
        unseen = None if self.state.heap.grown else held.unseen
        may_iteration = asking is None and is_asked_in_loop(frames)
        self.events.append(
            BranchEvent(
                here,
                chosen,
                sources,
                len(held.leaves),
                number,
                iteration,
                unseen,
                asking is not None,
                may_iteration,
                is_last,
                is_known,
            )
        )
        return chosen

    @property
    def notes_known(self) -> bool:
        """Whether earlier runs have asked for answers that this one may know."""
        return self._knows is not None

    def note_known(
        self,
        recorder: Any,
        condition: torch.SymBool,
        answer: bool,
        outermost: FrameType,
        sources: Callable[[], tuple[Source, ...]],
    ) -> None:
        """Makes a question whose answer the run knows an event, where earlier runs have asked for it.

        Args:
            recorder: What records the graph.
            condition: The question.
            answer: The answer.
            outermost: The frame in which the model is called.
            sources: Gives the lines that are running, the innermost first.
        """
        if self._knows is None or self.loops.asking is not None:
            return
        knows, self._knows = self._knows, None  # what follows asks questions of its own
        try:
            frames = _frames(outermost)
            self.loops.forget_left()
            at = self.state.point(frames)
            if knows.has_at(at) and _place(at, None, self.state.at(frames, recorder)) in knows:
                asked = condition if torch_decisions.known(condition) is None else answer  # else no operator gives it
                self.answer(recorder, asked, outermost, sources(), given=answer, is_known=True)
        finally:
            self._knows = knows

    def _has_new_range(self, outermost: FrameType) -> bool:
        """Whether a loop over a range of a known length is running, the innermost of which is to ask from now on."""
        loops = self.loops
        running = (
            (frame.f_code, loop.first)
            for frame in reversed(list(frames_between(sys._getframe(1), outermost)))
            for loop in reversed(for_loops(frame.f_code))
            if loop.first <= frame.f_lasti < loop.end
        )
        new = next((each for each in running if each in loops.ranges and each not in loops.learned.ranges), None)
        if new is not None:
            loops.learned.ranges.add(new)
        return new is not None

    def _has_decided_enough(self) -> bool:
        """Whether as many decisions have been asked for as there may be, beside those of loops."""
        return sum(not each.asks and not each.is_known for each in self.events) >= _MOST_DECISIONS


def _frames(outermost: FrameType) -> list[FrameType]:
    """The frames of the model that run."""
    return [frame for frame in frames_between(sys._getframe(2), outermost) if is_the_models(frame)]


def _place(at: Hashable, asked: Hashable, held: State) -> tuple[tuple[Hashable, Hashable], Hashable]:
    """The place of a question: where Python is, what tells it from others that are asked there, and what is held."""
    return (at, asked), held.structure
