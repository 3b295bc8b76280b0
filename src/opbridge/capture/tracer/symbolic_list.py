"""Lists of a model that loops may fill: `[]`, and what a comprehension makes.

While a model is captured, the lists that its functions make are of this class. It is a list in every way, and holds the
elements of the execution that runs, of which there are as many as that has iterations. Once a loop that appends to it
is over, what the model reads of it is read from its `form`, a sequence of a symbolic length: the length, elements by
numbers from data, slices, its truth, and further loops over it.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.capture.tracer.list_instructions import is_index

__all__ = ["Forms", "SymbolicList", "chained", "forming", "is_list", "plain", "sequence_of"]


@dataclass(frozen=True)
class Forms:
    """What is known of the lists that loops have filled.

    Attributes:
        of: Gives the sequence that a list is; None where no loop has filled it.
        replace: Notes that a list is another sequence from now on.
        prepend: Notes that an element was inserted before the others of a list.
        row: Gives the element of an index where the iteration of a loop over the list has that element; else None.
    """

    of: Callable[[SymbolicList], Any]
    replace: Callable[[SymbolicList, Any], None]
    prepend: Callable[[SymbolicList], None]
    row: Callable[[SymbolicList, Any], Any]


_forms: list[Forms] = []


@contextlib.contextmanager
def forming(forms: Forms) -> Iterator[None]:
    """Within this context, lists that loops have filled have forms.

    Args:
        forms: What is known of them.
    """
    _forms.append(forms)
    try:
        yield
    finally:
        _forms.pop()


class SymbolicList(list[Any]):
    """A list that is read as a sequence of a symbolic length once a loop has filled it."""

    __slots__ = ()

    @property
    def form(self) -> Any:
        """The sequence that it is; None where no loop has filled it, which makes it a list like any other."""
        return _forms[-1].of(self) if _forms else None

    def _become(self, form: Any) -> None:
        _forms[-1].replace(self, form)

    def __iter__(self) -> Iterator[Any]:
        form = self.form
        if form is None:
            return super().__iter__()
        found: Iterator[Any] = form.iterated(self, super().__iter__(), sys._getframe(1))
        return found

    def __len__(self) -> int:
        if is_index(sys._getframe(1)) and self.form is not None:
            raise TypeError("a list of a symbolic length is one index")
        return super().__len__()

    def __reversed__(self) -> Iterator[Any]:
        form = self.form
        return super().__reversed__() if form is None else iter(form[::-1])

    def __bool__(self) -> bool:
        form = self.form
        return len(self) > 0 if form is None else bool(form)

    def __getitem__(self, index: Any) -> Any:
        row = _forms[-1].row(self, index) if _forms and type(index) is torch.SymInt else None
        if row is not None:
            return row
        form = self.form
        if form is not None:
            return _with_form(super().__getitem__, form, index) if isinstance(index, slice) else form[index]
        found = super().__getitem__(index)
        return SymbolicList(found) if isinstance(index, slice) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        form = self.form
        if form is None:
            super().__setitem__(index, value)
            return
        form[index]  # which there has to be
        with _as_far_as_held():
            super().__setitem__(_held_index(index), value)
        self._become(form.with_element(index, value))

    def __delitem__(self, index: Any) -> None:
        form = self.form
        if form is None:
            super().__delitem__(index)
            return
        form[index]
        with _as_far_as_held():
            super().__delitem__(_held_index(index))
        self._become(form.without(index))

    def __add__(self, other: Any) -> Any:
        if self.form is not None or sequence_of(other) is not None:
            return chained(self, other)
        return SymbolicList(super().__add__(other)) if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        if self.form is not None:
            return chained(other, self)
        return SymbolicList([*other, *self]) if isinstance(other, list) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        if type(times) is not int:
            return NotImplemented  # of a size, it is a sequence of a symbolic length
        return SymbolicList(super().__mul__(times))

    def __iadd__(self, other: Any) -> Any:
        super().extend(self._added(other, sys._getframe(1)))
        return self

    def extend(self, values: Iterable[Any]) -> None:
        super().extend(self._added(values, sys._getframe(1)))

    def _added(self, values: Iterable[Any], frame: Any) -> Iterable[Any]:
        """What the list is extended by: for a sequence of a symbolic length, the iterations of a loop of the file."""
        sequence = sequence_of(values)
        return values if sequence is None else sequence.extending(self, frame)

    def insert(self, index: Any, value: Any) -> None:
        form = self.form
        super().insert(index, value)
        if form is None and _forms and type(index) is int and index == 0:
            _forms[-1].prepend(self)
        if form is not None:
            self._become(form.with_inserted(operator.index(index), value))

    def pop(self, index: Any = -1) -> Any:
        form = self.form
        if form is None:
            return super().pop(index)
        element = form[index]
        with _as_far_as_held():
            super().pop(_held_index(index))
        self._become(form.without(index))
        return element

    def reverse(self) -> None:
        form = self.form
        super().reverse()
        if form is not None:
            self._become(form[::-1])

    def copy(self) -> SymbolicList:
        form, found = self.form, SymbolicList(super().copy())
        if form is not None:
            found._become(form)
        return found


def _as_far_as_held() -> contextlib.AbstractContextManager[None]:
    """Within this context, what the list itself holds need not have an element of an index, as its form has it.

    It holds as many as the loop that has filled it had iterations in this execution, and an index may be one from data.
    """
    return contextlib.suppress(IndexError)


def _held_index(index: Any) -> Any:
    """The index of an element in what a list itself holds; that of the last one for a symbolic index."""
    return -1 if type(index) is torch.SymInt else index


def is_list(value: Any) -> bool:
    """Whether a value is a list of Python's, or one of these."""
    return type(value) in (list, SymbolicList)


def sequence_of(values: Any) -> Any:
    """The sequence of a symbolic length that a value is, or a list has as its form; None for any other value."""
    return values.form if type(values) is SymbolicList else values if hasattr(type(values), "chained") else None


def chained(*values: Any) -> Any:
    """The sum of lists and sequences of a symbolic length, of which there is at least one.

    Args:
        *values: The lists and sequences.
    """
    forms: list[Any] = []
    for each in values:
        form = sequence_of(each)
        forms.extend([list(each)] if form is None else form.pieces())
    some: Any = next(each for each in forms if type(each) is not list)
    form = some.chained(forms)
    if form is not None and any(sequence_of(each) is each for each in values):  # of which no elements are held
        return form.copied()
    found = SymbolicList(itertools.chain(*map(_elements, values)))
    found._become(form)
    return found


def _elements(values: Any) -> Iterator[Any]:
    """The elements of the execution that runs."""
    return list.__iter__(values) if isinstance(values, list) else iter(values.elements())


def _with_form(take: Callable[[slice], list[Any]], form: Any, index: slice) -> Any:
    """A slice of a list that has a form."""
    taken = form[index]
    if any(type(each) not in (int, type(None)) for each in (index.start, index.stop, index.step)):
        return taken
    found = SymbolicList(take(index))
    found._become(taken)
    return found


def plain(value: Any, form: Callable[[Any], Any] = lambda held: None) -> Any:
    """A tree with Python's own lists in the place of these; what holds none of them stays the same object.

    Args:
        value: The tree.
        form: Gives what takes the place of a list; None for a plain list.
    """
    leaves = pytree.tree_leaves(value, is_leaf=_is_symbolic_list)
    if not any(map(_is_symbolic_list, leaves)):
        return value

    def made(each: Any) -> Any:
        if not _is_symbolic_list(each):
            return each
        found = form(each)
        return [plain(inner, form) for inner in list.__iter__(each)] if found is None else found

    return pytree.tree_map(made, value, is_leaf=_is_symbolic_list)


def _is_symbolic_list(value: Any) -> bool:
    return type(value) is SymbolicList


pytree.register_pytree_node(
    SymbolicList,
    lambda values: (list(list.__iter__(values)), None),
    lambda values, context: SymbolicList(values),
    serialized_type_name="opbridge.SymbolicList",
)
