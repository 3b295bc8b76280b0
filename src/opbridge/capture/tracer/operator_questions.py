"""The questions about data that an operator asks while the shape of its result is found."""

from __future__ import annotations

from typing import Any

__all__ = ["OperatorQuestions"]


class OperatorQuestions:
    """The questions of the operator that is recorded now.

    Attributes:
        is_describing: Whether the result of an operator is being described, whose rank does not depend on its sizes.
    """

    def __init__(self) -> None:
        self.is_describing = False
        self._count = 0

    def begin(self, function: Any) -> None:
        """Notes that the result of an operator is described from now on."""
        self.is_describing = "squeeze" not in function._schema.name  # whose rank is what is asked
        self._count = 0

    def end(self) -> bool:
        """Notes that no result is described any more, and gives whether one was."""
        was_describing, self.is_describing = self.is_describing, False
        return was_describing

    def next_number(self) -> int:
        """Which question of the operator's a new one is, counted from 1; 0 where no result is described."""
        if not self.is_describing:
            return 0
        self._count += 1
        return self._count
