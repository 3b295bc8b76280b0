"""The questions about data and sizes that a model asks while it is traced, and what answers them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private import torch_decisions, torch_hashed_sizes, torch_shape_env
from opbridge.capture.tracer.origins import Origins
from opbridge.capture.tracer.recorder import Recorder

__all__ = ["BranchQuestions"]


class BranchQuestions:
    """The questions of one run.

    Args:
        answers: What answers them; see `opbridge.capture.control_flow`.
        recorder: What records the graph of the model.
        recording: Gives the recorder that operators are recorded by at the moment.
        origins: The lines that are running.
        sizes: The symbolic sizes.

    Attributes:
        answers: The same.
    """

    def __init__(
        self,
        answers: Any,
        recorder: Recorder,
        recording: Callable[[], Recorder],
        origins: Origins,
        sizes: torch_shape_env.Sizes,
    ) -> None:
        self.answers = answers
        self._recorder, self._recording = recorder, recording
        self._origins, self._env = origins, sizes.env

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Within this context, the questions are answered, and the branches that Python evaluates recorded."""
        answers = self.answers
        with (
            torch_decisions.answering(
                self._env,
                self._decide,
                answers.elements_asked_for,
                answers.state.chosen,
                answers.note_again,
                self._note_known if answers.notes_known else None,
            ),
            self._asking_sizes(),
        ):
            yield

    def _asking_sizes(self) -> contextlib.AbstractContextManager[None]:
        """Within this context, questions about sizes are decisions, where they are to be."""
        if self.answers.sizes is None:
            return contextlib.nullcontext()
        return torch_decisions.asking_sizes(self._env, self._decide_by_size)

    def _decide_by_size(self, condition: torch.SymBool, asked: torch_shape_env.AskedNow, answer: bool) -> None:
        """Notes a question about sizes: as a decision, or as what has to hold where it is asked."""
        answers, recorder = self.answers, self._recorder
        may_decide = self._recording() is recorder and not recorder.is_differentiating
        if not answers.sizes.decides(*asked, by_operator=recorder.questions.is_describing or not may_decide):
            answers.sizes.note_condition(asked, answer, torch_shape_env.line_of_question(self._env))
            return
        made = len(answers.events)
        with paused():
            answers.answer(
                recorder, condition, answers.outermost, self._origins.stack(), question=asked[0], given=answer
            )
        if len(answers.events) > made:
            answers.sizes.note_decision(asked, torch_shape_env.line_of_question(self._env))

    def _decide(self, condition: torch.SymBool, element: tuple[int, int] | None) -> bool | None:
        """The answer to a question about data; None where an operator's body asks it."""
        answers, recorder = self.answers, self._recorder
        if self._recording() is not recorder:
            return None
        number = recorder.questions.next_number() or torch_hashed_sizes.key_asked_about()
        with paused():
            answer: bool = answers.answer(
                recorder, condition, answers.outermost, self._origins.stack(), element, of_operator=number
            )
            return answer

    def _note_known(self, condition: torch.SymBool, answer: bool) -> None:
        """Notes a question of the model's own that the run knows the answer of."""
        answers, recorder = self.answers, self._recorder
        if self._recording() is recorder and not recorder.questions.is_describing:
            with paused():
                answers.note_known(recorder, condition, answer, answers.outermost, self._origins.stack)
