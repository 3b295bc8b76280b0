"""The conditions on sizes of one capture: those that are decisions, and those of operators."""

from __future__ import annotations

from collections.abc import Collection

from opbridge.graph.captured_graph import SizeCondition

__all__ = ["PathConditions"]

_ANY_OPERATOR = "an operator, or the body of one"

_Asked = tuple[str, tuple[str, ...]]


class PathConditions:
    """The conditions of one capture.

    Args:
        symbols: The symbols that may have any value.
        of_operators: The expressions that are decisions although operators ask them, to describe their results.

    Attributes:
        decisions: The decisions so far, one for each event.
        conditions: What else is asked, each with the number of decisions before it.
    """

    def __init__(self, symbols: Collection[str], of_operators: Collection[str]) -> None:
        self._symbols, self._of_operators = symbols, of_operators
        self.decisions: list[SizeCondition] = []
        self.conditions: dict[tuple[int, str], SizeCondition] = {}

    def decides(self, expression: str, symbols: Collection[str], *, by_operator: bool) -> bool:
        """Whether a condition is a decision.

        Args:
            expression: The condition.
            symbols: Its symbols.
            by_operator: Whether an operator asks it, to describe its result, or what is within the body of one.
        """
        return (not by_operator or expression in self._of_operators) and all(each in self._symbols for each in symbols)

    def note_decision(self, asked: _Asked, stack: str) -> None:
        """Notes the condition of a new event, which is asked at a line."""
        self.decisions.append(SizeCondition(*asked, stack))

    def note_condition(self, asked: _Asked, answer: bool, stack: str) -> None:
        """Notes a condition that is no decision, with its answer."""
        expression, symbols = asked
        told = expression if answer else f"not ({expression})"
        key = len(self.decisions), told
        if key not in self.conditions:
            self.conditions[key] = SizeCondition(told, symbols, stack, operator=_ANY_OPERATOR)
