"""The answers that one run of the model gets to its questions about data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from opbridge.base.sources import Source
from opbridge.base.torch_private import torch_decisions
from opbridge.base.torch_private.torch_decisions import DECISION
from opbridge.capture.decisions.changing_numbers import ChangingNumbers
from opbridge.capture.decisions.indexing import elements_asked_for
from opbridge.capture.decisions.places import Turns, frames_between, is_the_models, place
from opbridge.capture.decisions.state import state_of
from opbridge.capture.decisions.surroundings import Surroundings, settings
from opbridge.capture.decisions.unseen import handles_errors
from opbridge.capture.decisions.while_loops import WhileLoops, is_asked_in_turns
from opbridge.capture.tracer.growing_lists import Learned
from opbridge.capture.tracer.turning_loops import Loops
from opbridge.errors import CaptureError

__all__ = ["Answers", "LoopsLearned", "Mark", "WaysRefused"]

_MOST_DECISIONS = 128
_MOST_TURNS = 4096


class LoopsLearned(BaseException):
    """A run has shown of a loop what it needs to know from its begin; no handler of the model's takes it."""


class WaysRefused(CaptureError):
    """A model decides by data in a way that one graph does not hold."""


@dataclass(frozen=True)
class Mark:
    """A decision that a run has come to.

    Attributes:
        place: Where Python was, and what its variables held, but for values of the graph.
        answer: The answer that it got.
        sources: The lines that were running, the innermost first.
        leaves: How many values of the graph its variables held.
        loop: Which loop of the run it begins a turn of; None for any other decision.
        turn: How many turns that loop has had.
        unseen: What else Python held there; None where that is not known.
        asks: Whether the loop asks by it whether there is a further turn, which it has after the answer True.
        may_turn: Whether it may be asked in each turn of a loop that no sequence counts.
        is_last_element: Whether the model raises an error after the answer False, as an index is that of no element.
    """

    place: Hashable
    answer: bool
    sources: tuple[Source, ...]
    leaves: int
    loop: int | None = None
    turn: int = 0
    unseen: Hashable = None
    asks: bool = False
    may_turn: bool = False
    is_last_element: bool = False


class Answers:
    """Answers the questions of one run.

    Args:
        module: The model.
        choose: Gives an answer, for the decisions so far, the place of the next one, and, where a loop asks by it
            whether there is a further turn, how many it has had, and whether it is a loop of a later turn of another.
        of_sizes: Whether loops over sizes ask so, and not only those whose number of turns data decide.
        learned: What earlier runs have shown of the loops; this one adds to it.
        sizes: Where questions about sizes are decisions: which of them; see `size_decisions.questions`.

    Attributes:
        sizes: The same.
        marks: The decisions so far.
        turns: The turns of the other loops.
        loops: The loops that ask.
        outermost: The frame in which the model is called.
        chosen: The elements that indices are those of, for the trace to fill.
        again: The uses of earlier answers: the decision, None for any, and how many decisions there were.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        choose: Callable[[Sequence[Mark], Hashable, int | None, bool], bool],
        *,
        of_sizes: bool = False,
        learned: Learned | None = None,
        sizes: Any = None,
    ) -> None:
        self.sizes = sizes
        self._times: dict[Hashable, int] = {}
        self._decided = 0
        self._surroundings = Surroundings(module.named_modules())
        self._asked: frozenset[Any] = frozenset()
        self._expressions: dict[Any, int] = {}
        self.chosen: dict[Any, int] = {}
        self.again: list[tuple[int | None, int]] = []
        self._choose = choose
        self.loops = Loops(of_sizes=of_sizes, learned=learned or Learned())
        self.turns = Turns(self.loops.learned.numbers, self._surroundings.note)
        self.loops.carried = self.turns.carried
        self._numbers = ChangingNumbers(self.loops.learned)
        self._while_loops = WhileLoops(self.loops)
        self.marks: list[Mark] = []
        self.outermost: FrameType | None = None

    @property
    def compares_objects(self) -> bool:
        """Whether a function that has run asks whether two values are the same object."""
        return self._surroundings.compares_objects

    def restore(self) -> None:
        """Undoes what the run has changed beside the attributes of the model's modules."""
        self._surroundings.restore()

    def elements_asked_for(self) -> int | None:
        """How many elements a list has of which Python asks for the index of one; None where it asks for no index."""
        return None if self.outermost is None else elements_asked_for(self.outermost)

    def note_again(self, question: Any) -> None:
        """Notes that a question, given as an expression or as a constant, was answered by an earlier answer."""
        self.again.append((self._expressions.get(question), len(self.marks)))

    def answer(
        self,
        recorder: Any,
        condition: torch.SymBool,
        outermost: FrameType,
        sources: tuple[Source, ...],
        element: tuple[int, int] | None = None,
        question: Hashable = None,
        given: bool | None = None,
        of_operator: int = 0,
    ) -> bool:
        """The answer to a question, which the graph gets a mark of.

        Args:
            recorder: What records the graph.
            condition: The question.
            outermost: The frame in which the model is called.
            sources: The lines that were running, the innermost first.
            element: Where it is whether an index is that of an element of a list: which one, and of how many.
            question: Where it is about sizes: what tells it from others at the same place.
            given: The answer, where it is known.
            of_operator: Where an operator asks: which of its questions it is, counted from 1.
        """
        asking = self.loops.asking
        self.loops.made.clear()
        if len(self.marks) >= _MOST_TURNS or (asking is None and self._decided >= _MOST_DECISIONS):
            raise WaysRefused(
                f"The model cannot be captured: it evaluates more than {_MOST_DECISIONS} data-dependent conditions "
                f"in one run, for example at {sources[0] if sources else 'its first line'}. In a loop, let only "
                "tensors change between iterations: count in a tensor, or use torch.while_loop."
            )
        frames = list(frames_between(sys._getframe(1), outermost))
        frames = [frame for frame in frames if is_the_models(frame)]
        self.loops.forget_left()
        if asking is not None:
            self.turns.begin_turn(asking.frame, asking.offset)
            if asking.outer is not None:
                self.turns.begin_turn(asking.outer, asking.outer_offset)
        at = place(frames, self.turns, self.loops.offsets_in)
        if self.loops.has_learned or (asking is None and self._while_loops.are_new(frames, at)):
            raise LoopsLearned
        loop = asking or self._while_loops.at(frames, at, recorder)
        held = state_of(
            frames,
            [*self._surroundings.changed(), ("settings", {"": settings()}), ("", self.loops.gone_over())],
            recorder.knows,
            self._elements,
            self.turns.carried,
            self.chosen,
            self._asked,
            self._surroundings.stores,
            strict=self.loops.learned.tells_more,
            sharing=self.loops.learned.identities.shares,
            comparing=self.loops.learned.identities.compares_objects,
        )
        tensors = self.loops.counters() + [each for each in held.leaves if isinstance(each, torch.Tensor)]
        numbers = [each for each in held.leaves if not isinstance(each, torch.Tensor)]
        tensors += [self.turns.carried[id(each)][1] for each in numbers if id(each) in self.turns.carried]
        asked = element if question is None else question
        here = ((at, of_operator if asked is None and of_operator > 1 else asked), held.structure)
        if question is not None:
            times = self._times[here] = self._times.get(here, -1) + 1
            if times and self.marks[-1].place == ((at, (question, times - 1)), held.structure):
                self._times[here] -= 1
                return bool(given)  # asked again before anything else was
            here = ((at, (question, times)), held.structure)
        if self._numbers.are_new(frames, here[0], asking is not None):
            raise LoopsLearned
        is_last = element is not None and element[0] == element[1] - 1 and not handles_errors(frames)
        if given is None:
            chosen = is_last or self._choose(
                self.marks, here, None if asking is None else asking.turn, self.loops.is_in_later_turn(asking)
            )
        else:
            chosen = given
        self._decided += asking is None
        recorder.record(DECISION, (tensors, numbers, condition, chosen), {})
        number, turn = (None, 0) if loop is None else (loop.number, loop.turn)
        self._expressions[torch_decisions.expression_of(condition)] = len(self.marks)
        if element is None and given is None:
            self._asked |= torch_decisions.symbols_of(condition)
        unseen = None if self._surroundings.grown else held.unseen
        may_turn = asking is None and is_asked_in_turns(frames)
        self.marks.append(
            Mark(here, chosen, sources, len(held.leaves), number, turn, unseen, asking is not None, may_turn, is_last)
        )
        return chosen

    def _elements(self, held: Sequence[Any]) -> Sequence[Any]:
        """The elements of a list or tuple, without those that the turns of a loop have appended."""
        growing = self.loops.growing(held)
        return held if growing is None else growing.elements()
