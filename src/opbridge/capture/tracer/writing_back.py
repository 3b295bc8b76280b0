"""Views: what a tensor becomes when one of its views is written to.

Each operator below gives one view of its first argument. Its inverse takes that argument as it is, and the view as it
is after the write, and gives the argument as it is after the write.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_sizes

__all__ = ["SPLITS", "VIEWS", "Emit", "NotInvertible", "inverse", "is_part", "part_of_split"]

_aten = torch.ops.aten


class NotInvertible(Exception):
    """A view that has no inverse here: memory that it has twice, or a position that is not known."""


class Emit(Protocol):
    """Adds a node to the graph that is made."""

    def __call__(self, target: Any, args: tuple[Any, ...], like: torch.Tensor) -> Node:
        """The node.

        Args:
            target: Its operator.
            args: Its arguments.
            like: A tensor with the shape, strides and dtype of its value.
        """
        ...


def inverse(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    """A tensor as it is after a write to a view of it.

    Args:
        emit: Adds a node.
        node: The view, whose operator is one of `VIEWS`, or a getitem of one of `SPLITS`.
        whole: The tensor before the write.
        part: The view after it.

    Raises:
        NotInvertible: There is no inverse.
    """
    value, viewed = node.meta["val"], whole.meta["val"]
    if value.dtype != viewed.dtype:
        raise NotInvertible
    if node.target is operator.getitem:
        return _inverse_of_item(emit, node, whole, part)
    given = VIEWS[node.target]
    if given is not None and (not node.kwargs or given is _reshaped):
        return given(emit, node, whole, part)
    if torch_sizes.is_same_shape(value.shape, viewed.shape):
        return part
    raise NotInvertible


def is_part(node: Node) -> bool:
    """Whether a view is a part of its tensor only, so that the inverse puts it into the rest."""
    value, viewed = node.meta["val"], node.args[0].meta["val"]
    if node.target is operator.getitem:
        return True
    return VIEWS[node.target] in _OF_PARTS and not torch_sizes.is_same_shape(value.shape, viewed.shape)


def _reshaped(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    value = whole.meta["val"]
    if torch_sizes.is_same_shape(node.meta["val"].shape, value.shape):
        return part
    if all(type(size) is int for size in value.shape):
        return emit(_aten.reshape.default, (part, list(value.shape)), value)
    return emit(_aten.view_as.default, (part, whole), value)


def _selected(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    return emit(_aten.select_scatter.default, (whole, part, *node.args[1:]), whole.meta["val"])


def _sliced(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    value = whole.meta["val"]
    if torch_sizes.is_same_shape(node.meta["val"].shape, value.shape):
        return part  # the whole of it
    return emit(_aten.slice_scatter.default, (whole, part, *node.args[1:]), value)


def _narrowed(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    value = whole.meta["val"]
    if torch_sizes.is_same_shape(node.meta["val"].shape, value.shape):
        return part
    dim, start, length = node.args[1:]
    if type(start) is not int or type(length) is not int:
        raise NotInvertible
    end = start + length
    return emit(_aten.slice_scatter.default, (whole, part, dim, start, None if start < 0 and not end else end), value)


def _transposed(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    return emit(node.target, (part, *node.args[1:]), whole.meta["val"])


def _permuted(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    value = whole.meta["val"]
    order = [each % value.dim() for each in node.args[1]]
    return emit(_aten.permute.default, (part, [order.index(axis) for axis in range(value.dim())]), value)


def _moved(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    _, source, destination = node.args
    return emit(node.target, (part, destination, source), whole.meta["val"])


def _unsqueezed(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    return emit(_aten.select.int, (part, node.args[1], 0), whole.meta["val"])


def _diagonal(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    return emit(_aten.diagonal_scatter.default, (whole, part, *node.args[1:]), whole.meta["val"])


def _inverse_of_item(emit: Emit, node: Node, whole: Node, part: Node) -> Node:
    split, value = node.args[0], whole.meta["val"]
    dim = SPLITS[split.target](split)
    if split.target in _UNBINDS:
        return emit(_aten.select_scatter.default, (whole, part, dim, node.args[1]), value)
    start = _start_of_part(node)
    return emit(_aten.slice_scatter.default, (whole, part, dim, start, start + node.meta["val"].shape[dim]), value)


def _start_of_part(node: Node) -> int:
    """Where one of the parts of a split begins.

    Raises:
        NotInvertible: Only a run tells where a part begins or ends.
    """
    split, index = node.args
    dim = SPLITS[split.target](split)
    parts = split.meta["val"][: index + 1]
    sizes = [each.shape[dim] for each in parts]
    if not all(type(size) is int for size in sizes):
        raise NotInvertible
    return sum(sizes[:-1])


def part_of_split(emit: Emit, node: Node, whole: Node) -> Node:
    """One of the parts of a split, taken of the tensor as it is now.

    Raises:
        NotInvertible: Only a run tells where the part begins or ends.
    """
    split, value = node.args[0], node.meta["val"]
    dim = SPLITS[split.target](split)
    if split.target in _UNBINDS:
        return emit(_aten.select.int, (whole, dim, node.args[1]), value)
    start = _start_of_part(node)
    return emit(_aten.slice.Tensor, (whole, dim, start, start + value.shape[dim]), value)


def _dim(position: int) -> Callable[[Node], int]:
    def of(node: Node) -> int:
        given: Any = node.args[position] if len(node.args) > position else node.kwargs.get("dim", 0)
        return int(given) % node.args[0].meta["val"].dim()

    return of


_UNBINDS = frozenset({_aten.unbind.int})

SPLITS: dict[Any, Callable[[Node], int]] = {
    _aten.unbind.int: _dim(1),
    _aten.split.Tensor: _dim(2),
    _aten.split.sizes: _dim(2),
    _aten.split_with_sizes.default: _dim(2),
    _aten.chunk.default: _dim(2),
    _aten.tensor_split.sections: _dim(2),
}
"""Operators that give several views, and the dimension along which they do."""

_OF_PARTS = (_selected, _sliced, _narrowed, _diagonal)

_Inverse = Callable[[Emit, Node, Node, Node], Node]

VIEWS: dict[Any, _Inverse | None] = {
    **dict.fromkeys(
        (
            _aten.view.default,
            _aten.reshape.default,
            _aten._unsafe_view.default,
            _aten._reshape_alias.default,
            _aten.view_as.default,
            _aten.reshape_as.default,
            _aten.flatten.using_ints,
            _aten.ravel.default,
            _aten.unflatten.int,
            _aten.squeeze.default,
            _aten.squeeze.dim,
            _aten.squeeze.dims,
        ),
        _reshaped,
    ),
    _aten.select.int: _selected,
    _aten.slice.Tensor: _sliced,
    _aten.narrow.default: _narrowed,
    _aten.unsqueeze.default: _unsqueezed,
    _aten.permute.default: _permuted,
    _aten.diagonal.default: _diagonal,
    _aten.movedim.int: _moved,
    _aten.movedim.intlist: _moved,
    **dict.fromkeys(
        (
            _aten.transpose.int,
            _aten.swapaxes.default,
            _aten.swapdims.default,
            _aten.t.default,
            _aten.numpy_T.default,
            _aten.mT.default,
            _aten.matrix_H.default,
        ),
        _transposed,
    ),
    # These give the tensor itself, or a view that is read and not written to.
    **dict.fromkeys(
        (
            _aten.alias.default,
            _aten.detach.default,
            _aten.lift_fresh.default,
            _aten.contiguous.default,
            _aten.to.dtype,
            _aten.to.dtype_layout,
            _aten.to.device,
            _aten.to.other,
            _aten.type_as.default,
            _aten.expand.default,
            _aten.expand_as.default,
            _aten.broadcast_to.default,
            _aten.dropout.default,
            _aten.alpha_dropout.default,
            _aten.feature_dropout.default,
            _aten.positive.default,
            _aten.resolve_conj.default,
            _aten.resolve_neg.default,
            _aten.view.dtype,
            _aten.real.default,
            _aten.imag.default,
            _aten.view_as_real.default,
            _aten.unfold.default,
        ),
        None,
    ),
}
"""Operators that give a view, with the inverse; None: it has one only where the view is all of the tensor."""
