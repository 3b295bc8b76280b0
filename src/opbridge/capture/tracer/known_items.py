"""Integers computed from sizes by way of tensors.

`torch.div(x.shape[1], 8, rounding_mode="trunc")` is a tensor, and what `item`, or a place for a size, makes of it would
be a number that only a run tells. What the tensor holds follows from the sizes, as long as operators on integers make
it of them, and nothing is written to its memory. So it does for the largest element of a tensor that has one integer
everywhere, as `torch.full((batch,), x.shape[1]).max()`, and for the elements of a table of sizes, as those of
`torch.tensor([each.shape[-2:] for each in levels])`.

What is computed of a number that was read from data follows from this: in `F.pad(F.interpolate(x, size=(h, w)), (0,
width - w, 0, height - h))` with tensors `h` and `w`, the sizes are `height` and `width`. That holds up to the next
decision, as what a branch or an iteration computes is another number in the next one.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_decisions
from opbridge.capture.tracer.constants import Constants
from opbridge.capture.tracer.integer_tables import Number, Table, each_of, part, rows
from opbridge.capture.tracer.made_once import since_decision

__all__ = ["Known", "KnownItems"]

_aten = torch.ops.aten

_READING = frozenset({_aten.item.default, _aten._local_scalar_dense.default})

_SAME = frozenset(
    {
        _aten.clone.default,
        _aten.detach.default,
        _aten.detach_.default,
        _aten.lift_fresh_copy.default,
        _aten.to.device,
        _aten.to.dtype,
        _aten.to.dtype_layout,
    }
)
"""Operators that give the integer that they are given."""


_EVERYWHERE = frozenset(
    {
        _aten.expand.default,
        _aten.flatten.using_ints,
        _aten.repeat.default,
        _aten.reshape.default,
        _aten.squeeze.default,
        _aten.squeeze.dim,
        _aten.unsqueeze.default,
        _aten.view.default,
    }
)
"""Operators that give a tensor of the elements that they are given."""

_EXTREMES = frozenset({_aten.max.default, _aten.min.default, _aten.amax.default, _aten.amin.default})


class Known(enum.Enum):
    """Which integers are known."""

    ALL = enum.auto()
    QUOTIENTS = enum.auto()
    """Quotients of Python's numbers, and not what becomes of tensors. So it is where loops may become loops of the
    file: a counter is a tensor that each iteration changes, and a known integer would differ in each."""
    NONE = enum.auto()
    """So it is where a graph is recorded again, in which those that are known are no nodes any more."""


class KnownItems:
    """The nodes that hold integers which follow from sizes: one, the same one everywhere, or a table of them.

    Args:
        constants: Tells what memory the model writes to.
        known: Which are known.
    """

    def __init__(self, constants: Constants, known: Known = Known.ALL) -> None:
        self.known = known
        self._constants = constants
        self._items: dict[Node, torch.SymInt] = {}
        self._tables: dict[Node, Table] = {}
        self._from_data: dict[Node, tuple[torch.SymInt, object]] = {}

    def item(self, function: Any, arguments: Any) -> torch.SymInt | None:
        """What `item` gives for a node; None where that is not known, and for another operator."""
        if function not in _READING:
            return None
        found = self._integer(arguments[0])
        return found if isinstance(found, torch.SymInt) else None

    def add(self, function: Any, node: Node, result: Any) -> None:
        """Notes the integers of a new node, where they follow from sizes or from a number that was read.

        Args:
            function: The operator; `operator.getitem` for one of its results.
            node: The node.
            result: What the operator gives, without values.
        """
        if self.known is Known.NONE:
            return
        if function in _READING and isinstance(result, torch.SymInt) and _is_int64(node.args[0]):
            self._from_data[node.args[0]] = result, since_decision()
        if function is _aten.unbind.int and self.known is Known.ALL:
            table = self._elements(node.args[0])
            dim = node.args[1] if len(node.args) > 1 else 0
            if isinstance(table, tuple) and result:
                parts = [part(table, dim % (result[0].dim() + 1), index) for index in range(len(result))]
                self._tables[node] = tuple(parts)
        if not isinstance(result, torch.Tensor) or result.dtype != torch.int64:
            return
        is_from_data = any(map(self._is_from_data, pytree.tree_leaves(node.args)))
        if is_from_data and not result.dim():
            if isinstance(value := self._number(function, node, 0), torch.SymInt):
                self._from_data[node] = value, since_decision()
        elif self.known is Known.ALL and not is_from_data:
            value = self._table(function, node, result.dim())
            value = self._number(function, node, result.dim()) if value is None else value
            if isinstance(value, tuple):
                self._tables[node] = value
            elif isinstance(value, torch.SymInt):
                self._items[node] = value
        elif function in _DIVISIONS and not any(map(_is_tensor, node.args)):
            if isinstance(value := self._number(function, node, 0), torch.SymInt):
                self._items[node] = value

    def _number(self, function: Any, node: Node, rank: int) -> Any:
        """The integer that a tensor of a rank has everywhere; None where it is not known."""
        if function is _aten.full.default:
            return self._integer(node.args[1])
        if function is _aten.scalar_tensor.default or function in _SAME or function in _EVERYWHERE:
            return self._integer(node.args[0])
        if function in _EXTREMES and not rank:
            return self._integer(node.args[0])  # of no elements, PyTorch raises an error
        if not rank and _is_computed(function, node):
            first, second = map(self._integer, node.args)
            return None if first is None or second is None else _COMPUTED[function](first, second, **node.kwargs)
        return None

    def _table(self, function: Any, node: Node, rank: int) -> Table | Number | None:
        """The elements of a table of integers, or of a part of one; None where they are not known.

        Args:
            function: The operator that gives the table or the part.
            node: Its node.
            rank: The rank of what it gives.
        """
        arguments = node.args
        if function is _aten.stack.default:
            found = tuple(self._elements(each) for each in arguments[0])
            return found if _is_first(arguments[1:], rank) and None not in found else None
        if function is operator.getitem:
            return self._tables[arguments[0]][arguments[1]] if arguments[0] in self._tables else None
        if function in _SAME:
            return self._elements(arguments[0])
        table = self._elements(arguments[0]) if function in _OF_TABLES else None
        if not isinstance(table, tuple):
            return None
        if function is _aten.select.int:
            return part(table, arguments[1] % (rank + 1), arguments[2])
        if function is _aten.slice.Tensor:
            return rows(table, arguments[2:]) if _is_first(arguments[1:2], rank) else None
        if not _is_computed(function, node) or (_is_tensor(arguments[1]) and arguments[1].meta["val"].dim()):
            return None
        second = self._integer(arguments[1])
        return None if second is None else each_of(table, lambda each: _COMPUTED[function](each, second, **node.kwargs))

    def _elements(self, tensor: Any) -> Table | Number | None:
        if isinstance(tensor, Node) and tensor in self._tables:
            return None if self._constants.is_written(tensor.meta["val"]) else self._tables[tensor]
        return self._integer(tensor)

    def _is_from_data(self, argument: Any) -> bool:
        """Whether an argument is a tensor whose number was read since the last decision, or follows from such a one."""
        return (
            isinstance(argument, Node)
            and argument in self._from_data
            and self._from_data[argument][1] is since_decision()
        )

    def _integer(self, value: Any) -> torch.SymInt | int | None:
        if isinstance(value, Node):
            known = value.meta.get("val")
            if not isinstance(known, torch.Tensor):
                value = known
            else:
                if self._constants.is_written(known):
                    return None
                return self._from_data[value][0] if self._is_from_data(value) else self._items.get(value)
        return value if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool) else None


def _is_first(dims: Sequence[Any], rank: int) -> bool:
    """Whether the dimension that an operator is given, 0 where it is given none, is the first of a tensor."""
    return not dims or dims[0] in (0, -rank)


def _is_computed(function: Any, node: Node) -> bool:
    return function in _COMPUTED and len(node.args) == 2 and node.kwargs.keys() <= {"rounding_mode"}


def _is_int64(argument: Any) -> bool:
    known = argument.meta.get("val") if isinstance(argument, Node) else None
    return isinstance(known, torch.Tensor) and known.dtype == torch.int64


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, Node) and isinstance(argument.meta.get("val"), torch.Tensor)


def _quotient(value: Any, divisor: Any, rounding_mode: str | None = None) -> Any:
    """The quotient, where both ways to round agree."""
    if rounding_mode is None or not isinstance(divisor, int) or divisor < 1:
        return None
    return value // divisor if torch_decisions.known(value >= 0) else None


_DIVISIONS = frozenset({_aten.div.Tensor_mode, _aten.div.Scalar_mode})

_COMPUTED: dict[Any, Callable[..., Any]] = {
    _aten.add.Tensor: lambda a, b: a + b,
    _aten.sub.Tensor: lambda a, b: a - b,
    _aten.rsub.Scalar: lambda a, b: b - a,
    _aten.mul.Tensor: lambda a, b: a * b,
    _aten.div.Tensor_mode: _quotient,
    _aten.div.Scalar_mode: _quotient,
    _aten.floor_divide.default: lambda a, b: _quotient(a, b, "floor"),
}

_OF_TABLES = frozenset({_aten.select.int, _aten.slice.Tensor, *_COMPUTED})
"""Operators that give a table, or a part of one, for a table as the first argument."""
