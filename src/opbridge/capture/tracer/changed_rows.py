"""Loops that change the rows of a list that they go over: afterwards, the list holds the rows as they have left them.

`for row in rows: row["score"] = row["score"] / total` changes rows that were made for it, one in each iteration. What
each iteration leaves of its row is appended to a further list, which takes the place of the first one after the loop.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Protocol

from opbridge.capture.tracer.append_only_lists import Iterations
from opbridge.capture.tracer.followed_lists import FollowedLists
from opbridge.capture.tracer.symbolic_list import SymbolicList
from opbridge.errors import CaptureError

__all__ = ["ChangedRows", "ListGoneOver", "changed_rows"]


class ListGoneOver(Protocol):
    """A list of rows that a loop goes over.

    Attributes:
        held: The list.
    """

    held: Any

    @property
    def row(self) -> Any:
        """The row of the last iteration that has begun."""


class ChangedRows:
    """The rows of a list as the iterations of a loop leave them.

    Args:
        of: The list.
        loop: The loop.
        place: Which list of which loop it is, in any execution.
        lists: The lists of the execution.
    """

    def __init__(self, of: ListGoneOver, loop: Iterations, place: Hashable, lists: FollowedLists) -> None:
        self._of, self._lists = of, lists
        self._summary = lists.learned.of_list(place)
        self._rows = SymbolicList()
        lists.add(self._rows, loop, self._summary)

    def row_of(self, held: Any) -> Any:
        """The row of the iteration that runs; None where this is another list."""
        return self._of.row if held is self._of.held else None

    def end_iteration(self) -> None:
        """Takes the row that an iteration leaves, where an iteration of any execution has changed its row."""
        row = self._of.row
        if not self._summary.changes_rows and not self._lists.rows.is_unchanged(row):
            self._summary.changes_rows = self._lists.has_learned = True
        if self._summary.changes_rows:
            self._rows.append(row)

    def end(self) -> None:
        """Has the list hold the rows that all iterations have left.

        Raises:
            CaptureError: They are of different kinds.
        """
        if not self._summary.changes_rows:
            return
        rows = list(list.__iter__(self._rows))
        for row in rows:
            self._lists.rows.note_again(row)
        form = self._rows.form
        if form is not None:
            self._lists.forms[id(self._of.held)] = self._of.held, form
        elif rows:
            raise CaptureError(
                "The iterations of a loop change elements of a list, and leave them with different keys or attributes, "
                "or with tensors of different dtypes or ranks. Leave all elements with the same."
            )


def changed_rows(
    gone_over: Iterable[ListGoneOver], loop: Iterations, place: Hashable, lists: FollowedLists
) -> list[ChangedRows]:
    """What a loop that begins may change of the rows that it goes over.

    Args:
        gone_over: The lists of rows; of one that is gone over twice in each iteration, changes are not followed.
        loop: The loop.
        place: Which loop it is, in any execution.
        lists: The lists of the execution.
    """
    found = list(gone_over)
    alone = [each for each in found if [other.held is each.held for other in found].count(True) == 1]
    return [ChangedRows(each, loop, (place, "rows", number), lists) for number, each in enumerate(alone)]
