"""Lists of as many tensors as inputs decide, among what a model returns: an ONNX graph has a fixed number of outputs.

Such a list is two outputs, the tensors joined along the dimension in which they differ, and their sizes there; a list
of tensors of one shape, or of integers, is one output with a new first dimension.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_tracing

__all__ = ["METADATA", "SIZES", "OpenList", "as_lists", "open_lists", "replaced", "with_open_lists"]

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


def open_lists(structure: pytree.TreeSpec | None) -> dict[str, int | None]:
    """Such lists in the structure of what a model returns: their paths, as outputs are named, with the dimensions."""
    return {} if structure is None else dict(_found(structure, ()))


def _found(structure: pytree.TreeSpec, path: tuple[str, ...]) -> Iterator[tuple[str, int | None]]:
    if structure.is_leaf():
        return
    if structure.type is OpenList:
        yield torch_tracing.output_name(path), structure.context[1]
        return
    for name, child in torch_tracing.named_children(structure):
        yield from _found(child, (*path, name))


def with_open_lists(returned: Any, lists: Mapping[str, int | None]) -> Any:
    """What a model returns, with the lists of these paths in this form.

    Args:
        returned: What the model returns.
        lists: As `open_lists` gives them.

    Raises:
        ValueError: A list is empty, or its tensors cannot be joined.
    """
    if not lists:
        return returned

    def formed(value: Any, path: tuple[str, ...]) -> OpenList | None:
        dim = lists.get(torch_tracing.output_name(path), _NONE)
        return OpenList.of(value, dim) if type(value) in (list, tuple) and dim is not _NONE else None

    return replaced(returned, formed)


def as_lists(returned: Any) -> Any:
    """The same with lists again in the place of this form."""

    def is_open(value: Any) -> bool:
        return isinstance(value, OpenList)

    return pytree.tree_map(lambda value: value.values() if is_open(value) else value, returned, is_leaf=is_open)


_NONE: Any = object()


def replaced(value: Any, form: Callable[[Any, tuple[str, ...]], OpenList | None], path: tuple[str, ...] = ()) -> Any:
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
