"""Lists of as many tensors as inputs decide, among what a model returns: an ONNX graph has a fixed number of outputs.

Such a list is two outputs, the tensors joined along the dimension in which they differ, and their sizes there; a list
of tensors of one shape, or of integers, is one output with a new first dimension. A list of rows, containers that hold
such tensors at the same places, is such a list for each place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_tracing

__all__ = [
    "METADATA",
    "ROWS",
    "SIZES",
    "Form",
    "OpenList",
    "OpenRows",
    "as_lists",
    "open_lists",
    "replaced",
    "with_open_lists",
]

Form = int | Literal["rows"] | None
"""How a list is joined: along a dimension; as rows, place by place; or stacked, None."""

ROWS: Literal["rows"] = "rows"

SIZES = "sizes"
"""What the name of the output with the sizes ends with."""


METADATA = "opbridge.lists"
"""The entry of a file's metadata that holds what `open_lists` gives, as JSON."""


class OpenList:
    """A list of as many tensors as inputs decide, as a container of one tensor or two.

    Attributes:
        joined: The tensors, joined along `dim`; stacked, where that is None.
        sizes: The size of each of them in this dimension, int64; None where they are stacked.
        dim: The dimension, 0 or more.
    """

    def __init__(self, joined: Any, sizes: Any, dim: int | None) -> None:
        self.joined, self.sizes, self.dim = joined, sizes, dim

    @classmethod
    def of(cls, values: Sequence[Any], dim: int | None) -> OpenList:
        """The form of a list of tensors, or of integers.

        Raises:
            ValueError: The list is empty, so that its dtype is not known, or does not have this form.
        """
        if not values:
            raise ValueError("the model returns an empty list of tensors, which has no dtype")
        tensors = [each if isinstance(each, torch.Tensor) else torch.tensor(each) for each in values]
        try:
            if dim is None:
                return cls(torch.stack(tensors), None, None)
            sizes = torch.tensor([each.shape[dim] for each in tensors], dtype=torch.int64)
            return cls(torch.cat(tensors, dim), sizes, dim)
        except (IndexError, RuntimeError) as error:
            raise ValueError(f"the model returns a list of tensors that cannot be concatenated: {error}") from error

    def values(self) -> list[torch.Tensor]:
        """The tensors of the list."""
        return list(self.joined.unbind(0) if self.dim is None else self.joined.split(self.sizes.tolist(), self.dim))


def _flattened(value: OpenList) -> tuple[list[Any], Any]:
    if value.dim is None:
        return [value.joined], (("",), None)
    return [value.joined, value.sizes], (("", SIZES), value.dim)


def _unflattened(values: Any, context: Any) -> OpenList:
    joined, *sizes = values
    return OpenList(joined, sizes[0] if sizes else None, context[1])


pytree.register_pytree_node(OpenList, _flattened, _unflattened)


class OpenRows:
    """A list of as many rows as inputs decide, as one row that holds a list at each place.

    Attributes:
        row: The container, or containers within each other, with an `OpenList` in the place of each tensor.
    """

    def __init__(self, row: Any) -> None:
        self.row = row

    @classmethod
    def of(cls, rows: Sequence[Any], lists: Mapping[str, Form], path: tuple[str, ...]) -> OpenRows:
        """The form of a list of rows.

        Args:
            rows: The rows.
            lists: How the lists at their places are joined, by their paths.
            path: The path to the list.

        Raises:
            ValueError: The list is empty, so that dtypes are not known, or does not have this form.
        """
        if not rows:
            raise ValueError("the model returns an empty list, whose elements have no dtypes")
        return cls(_transposed(list(rows), lists, path))

    def values(self) -> list[Any]:
        """The rows of the list."""
        columns, structure = pytree.tree_flatten(self.row, is_leaf=_is_open_list)
        lists = [each.values() if _is_open_list(each) else None for each in columns]
        count = next((len(each) for each in lists if each is not None), 0)
        rows = ([one if of is None else of[at] for one, of in zip(columns, lists, strict=True)] for at in range(count))
        return [pytree.tree_unflatten(each, structure) for each in rows]


def _is_open_list(value: Any) -> bool:
    return isinstance(value, OpenList)


def _transposed(values: list[Any], lists: Mapping[str, Form], path: tuple[str, ...]) -> Any:
    """What rows hold at a place: a list where that is joined, else a container of what they hold at places in it."""
    name = torch_tracing.output_name(path)
    dim = lists.get(name, _NONE)
    if dim is not _NONE and dim != ROWS:
        return OpenList.of(values, dim)
    flattened = [pytree.tree_flatten(each, is_leaf=lambda inner, each=each: inner is not each) for each in values]
    parts, structure = flattened[0]
    if any(other != structure for _, other in flattened):
        raise ValueError("the model returns a list whose elements differ in what they hold")
    if structure.is_leaf():
        if isinstance(parts[0], torch.Tensor):
            raise ValueError(
                f"the model returns a list whose elements hold tensors for which no output is known: {name!r}"
            )
        if any(each != values[0] for each in values):
            raise ValueError(f"the model returns a list whose elements hold values that differ: {name!r}")
        return values[0]
    names = [name for name, _ in torch_tracing.named_children(structure)]
    columns = zip(*(each for each, _ in flattened), strict=True)
    new = [_transposed(list(each), lists, (*path, name)) for name, each in zip(names, columns, strict=True)]
    return pytree.tree_unflatten(new, structure)


pytree.register_pytree_node(
    OpenRows, lambda value: ([value.row], (("",), ROWS)), lambda values, context: OpenRows(next(iter(values)))
)


def open_lists(structure: pytree.TreeSpec | None) -> dict[str, Form]:
    """Such lists in the structure of what a model returns: their paths, as outputs are named, with their forms."""
    return {} if structure is None else dict(_found(structure, ()))


def _found(structure: pytree.TreeSpec, path: tuple[str, ...]) -> Iterator[tuple[str, Form]]:
    if structure.is_leaf():
        return
    if structure.type is OpenList:
        yield torch_tracing.output_name(path), structure.context[1]
        return
    if structure.type is OpenRows:
        yield torch_tracing.output_name(path), ROWS
    for name, child in torch_tracing.named_children(structure):
        yield from _found(child, (*path, name))


def with_open_lists(returned: Any, lists: Mapping[str, Form]) -> Any:
    """What a model returns, with the lists of these paths in this form.

    Args:
        returned: What the model returns.
        lists: As `open_lists` gives them.

    Raises:
        ValueError: A list is empty, or its tensors cannot be joined.
    """
    if not lists:
        return returned

    def formed(value: Any, path: tuple[str, ...]) -> OpenList | OpenRows | None:
        form = lists.get(torch_tracing.output_name(path), _NONE)
        if type(value) not in (list, tuple) or form is _NONE:
            return None
        return OpenRows.of(value, lists, path) if form == ROWS else OpenList.of(value, form)

    return replaced(returned, formed)


def as_lists(returned: Any) -> Any:
    """The same with lists again in the place of this form."""

    def is_open(value: Any) -> bool:
        return isinstance(value, OpenList | OpenRows)

    return pytree.tree_map(lambda value: value.values() if is_open(value) else value, returned, is_leaf=is_open)


_NONE: Any = object()


def replaced(
    value: Any, form: Callable[[Any, tuple[str, ...]], OpenList | OpenRows | None], path: tuple[str, ...] = ()
) -> Any:
    """A tree with other lists; what holds none of them stays the same object.

    Args:
        value: The tree.
        form: Gives the form of a list that has one, for a part of the tree and its path; else None.
        path: The path to the tree.
    """
    formed = form(value, path)
    if formed is not None:
        return formed
    parts, structure = pytree.tree_flatten(value, is_leaf=lambda each: each is not value)
    if structure.is_leaf():
        return value
    names = [name for name, _ in torch_tracing.named_children(structure)]
    new = [replaced(part, form, (*path, name)) for name, part in zip(names, parts, strict=True)]
    if all(one is other for one, other in zip(parts, new, strict=True)):
        return value
    made = pytree.tree_unflatten(new, structure)
    if isinstance(made, OrderedDict):  # transformers' outputs put their fields in the order of the class
        for key in value:
            made.move_to_end(key)
    return made
