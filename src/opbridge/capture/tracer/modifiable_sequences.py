"""What modifies a list, for sequences of a symbolic length: each change makes another sequence of it."""

from __future__ import annotations

import copy
import operator
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from opbridge.errors import CaptureError

__all__ = ["ModifiableSequence"]


class ModifiableSequence(Sequence[Any]):
    """A sequence of which `list(sequence)` can be modified."""

    is_list = False
    """Whether it is a list of its own, which may be modified."""

    @abstractmethod
    def chained(self, pieces: Sequence[Any]) -> Any:
        """The sum of sequences and plain lists, of which this is one; None where that is not known without elements."""

    def with_inserted(self, index: int, value: Any) -> Any:
        """The sequence with a further element before one; None where that is not known without elements."""
        return self.chained([self[:index], [value], self[index:]])

    def with_element(self, index: Any, value: Any) -> Any:
        """The same with another element at an index."""
        if isinstance(index, slice):
            return None
        after = [] if type(index) is int and index == -1 else self[index + 1 :]
        return self.chained([self[:index], [value], after])

    def without(self, index: Any) -> Any:
        """The same without the element at an index."""
        if isinstance(index, slice):
            return None
        if type(index) is int and index in (0, -1):
            return self[1:] if index == 0 else self[:-1]
        return self.chained([self[:index], self[index + 1 :]])

    def copied(self) -> Self:
        """`list(sequence)`: a sequence of its own, which may be modified."""
        found = copy.copy(self)
        found.is_list = True
        return found

    def append(self, value: Any) -> None:
        self._become(self.chained([self, [value]]))

    def extend(self, values: Any) -> None:
        self._become(self.chained([self, values if isinstance(values, ModifiableSequence) else list(values)]))

    def insert(self, index: Any, value: Any) -> None:
        self._become(self.with_inserted(operator.index(index), value))

    def pop(self, index: Any = -1) -> Any:
        element = self[index]
        self._become(self.without(index))
        return element

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index]  # which there has to be
        self._become(self.with_element(index, value))

    def __delitem__(self, index: Any) -> None:
        self[index]
        self._become(self.without(index))

    def reverse(self) -> None:
        self._become(self[::-1])

    def sort(self, **settings: Any) -> None:
        self._become(None)

    def remove(self, value: Any) -> None:
        self._become(None)

    def clear(self) -> None:
        self._become(None)

    def _become(self, other: Any) -> None:
        """Takes the elements of another sequence, in the same object.

        Raises:
            CaptureError: It is not a list of its own, or the other one is not known.
        """
        if not self.is_list or not isinstance(other, ModifiableSequence):
            raise CaptureError(
                "A sequence whose length depends on the inputs is modified. Make a list of it by a comprehension, "
                "[each for each in values], which may be modified after it."
            )
        self.__class__ = type(other)
        self.__dict__ = {**vars(other), "is_list": True}
