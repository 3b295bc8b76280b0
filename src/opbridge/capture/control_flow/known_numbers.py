"""Numbers that are computed in some paths of a model and known in others: whether the paths agree on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_decisions, torch_proxies
from opbridge.capture.control_flow.unify_arguments import Computed

__all__ = ["is_known_as"]


def is_known_as(computed: Computed, number: Any, node: Callable[[Any], Node | None]) -> bool:
    """Whether what computes a number in other paths gives, in one path, the number that is known there.

    It does where that path knows the number by its answers, as 3 after `boxes.shape[0] == 3`. It need not where an
    answer has chosen another number, as for `scale * 0`.

    Args:
        computed: How the number is computed.
        number: What it is in the one path.
        node: Gives the node of that path that a place in the flow stands for.
    """
    try:
        with torch_proxies.Disabled():
            found = _value(computed, node)
            if isinstance(number, bool):
                return torch_decisions.known(found) is number
            return torch_decisions.known(found == number) is True
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return False


def _value(form: Any, node: Callable[[Any], Node | None]) -> Any:
    """What a form is in one path.

    Raises:
        LookupError: That path does not have it.
    """
    if isinstance(form, Computed):
        args = [_value(each, node) for each in form.args]
        if isinstance(form.target, torch._ops.OpOverload):
            return _read(form.target, args)
        return form.target(*args)
    if type(form) in (list, tuple):
        return type(form)(_value(each, node) for each in form)
    if form is None or isinstance(form, (int, float, bool)):
        return form
    found = node(form)
    if found is None:
        raise LookupError
    value = found.meta.get("val")
    return found if isinstance(value, torch.Tensor) else value


def _read(target: Any, args: list[Any]) -> Any:
    """What a path has read from a tensor, by its node."""
    source, *others = args
    if target is torch.ops.aten.sym_size.int:
        return source.meta["val"].shape[others[0]]
    reading = (each for each in source.users if each.target is target and list(each.args[1:]) == others)
    try:
        return next(reading).meta["val"]
    except StopIteration:
        raise LookupError from None
