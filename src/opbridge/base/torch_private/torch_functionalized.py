"""Calls of operators that write to their arguments, as torch's functionalisation leaves them in an exported program.

Checked on torch 2.13.0 and 2.14.1.

`run_decompositions` makes `auto_functionalized_v2(op, x=..., _s_base_index=0, _all_bases=[s])` of `op(s, x)`, and older
programs have `auto_functionalized(op, s=s, x=x)`. Its results are what the operator returns, which is None where that
is nothing, and then what it has written to copies of the tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

__all__ = ["FunctionalizedCall", "functionalized_call"]

_VIEWS = ("_storage_offset", "_slice_dim")


@dataclass(frozen=True)
class FunctionalizedCall:
    """A call of an operator on copies of the tensors that it writes to.

    Attributes:
        operator: The operator.
        given: Its other arguments, by name.
        bases: The tensors that are copied, in the order of the results; a list where an argument is one.
        written: For each argument that is written to, the index of its tensor among the bases, a list of these, or None
            where it is not given.
        writes_to_views: Whether one of them is a view of a base.
    """

    operator: torch._ops.OpOverload
    given: dict[str, Any]
    bases: tuple[Any, ...]
    written: dict[str, Any]
    writes_to_views: bool

    @property
    def returned(self) -> int:
        """How many of the results the operator returns; one, which is None, where it returns nothing."""
        return max(1, len(self.operator._schema.returns))


def functionalized_call(node: Node) -> FunctionalizedCall | None:
    """The call that a node of a functionalised graph stands for; None where it is no such node."""
    name = str(node.target)
    if name not in ("auto_functionalized", "auto_functionalized_v2"):
        return None
    op = node.args[0]
    if not isinstance(op, torch._ops.OpOverload):  # an operator of control flow whose functions write
        return None
    given = dict(node.kwargs)
    names = [each.name for each in op._schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    if name == "auto_functionalized":
        values = {each: given.pop(each, None) for each in names}
        bases = tuple(value for value in values.values() if value is not None)
        numbers = iter(range(len(bases)))
        places = {each: None if value is None else next(numbers) for each, value in values.items()}
        return FunctionalizedCall(op, given, bases, places, writes_to_views=False)
    bases = tuple(given.pop("_all_bases"))
    written: dict[str, Any] = {}
    of_views = False
    for each in names:
        length = given.get(f"_{each}_length", _ALONE)
        if length is None:
            written[each] = None
        elif length is _ALONE:
            written[each] = given.get(f"_{each}_base_index")
        else:
            written[each] = [given.get(f"_{each}_{index}_base_index") for index in range(length)]
        own = [key for key in given if key.startswith(f"_{each}_")]
        of_views = of_views or any(key.endswith(_VIEWS) for key in own)
    plain = {key: value for key, value in given.items() if key in {each.name for each in op._schema.arguments}}
    return FunctionalizedCall(op, plain, bases, written, of_views)


_ALONE = object()
