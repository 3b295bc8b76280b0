"""One call of a model: its inputs in one form, whichever way they were passed, and copied."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_proxies
from opbridge.capture.model_inputs import register_containers
from opbridge.capture.named_leaves import named_leaves

__all__ = ["RecordedCall", "copied", "described", "noted", "numbers", "same_kind", "same_value"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


@dataclass
class RecordedCall:
    """A call of a model.

    Attributes:
        args: The positional inputs, as many as can be passed by position.
        kwargs: The keyword inputs.
        names: The place of each leaf of `(args, kwargs)`: "x", "masks[0]".
        leaves: The leaves.
        structure: The pytree structure of `(args, kwargs)`.
        number: Its number among the calls, from 1 on.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: tuple[str, ...]
    leaves: tuple[Any, ...]
    structure: Any
    number: int = 0

    @property
    def shapes(self) -> tuple[tuple[int, ...] | None, ...]:
        """The shape of each leaf; None for one that is no tensor."""
        return tuple(tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else None for leaf in self.leaves)

    def has_signature_of(self, other: RecordedCall) -> bool:
        """Whether one file can serve both: the same structure, dtypes and ranks, and the same values beside tensors."""
        return self.structure == other.structure and all(map(same_kind, self.leaves, other.leaves))


def noted(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RecordedCall | None:
    """A call in one form: by position what can be, without arguments that have their default's value.

    Args:
        signature: The signature of `forward`.
        args: The positional inputs.
        kwargs: The keyword inputs.

    Returns:
        The call with the caller's own tensors; None where the inputs do not fit the signature, or where they are
        tensors without values, as while something captures the model.
    """
    register_containers((args, kwargs))
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the call itself fails too
        return None
    gathers = any(signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL for name in bound.arguments)
    for name, value in list(bound.arguments.items()):
        parameter = signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = dict(sorted(value.items()))
        elif not gathers and parameter.kind not in _POSITIONAL and _is_default(value, parameter.default):
            del bound.arguments[name]
    args, kwargs = bound.args, dict(bound.kwargs)
    leaves, structure = pytree.tree_flatten((args, kwargs))
    if any(isinstance(leaf, torch_proxies.FakeTensor) for leaf in leaves):
        return None
    names = tuple(name for name, _ in named_leaves(signature, args, kwargs))
    return RecordedCall(args, kwargs, names, tuple(leaves), structure)


def copied(call: RecordedCall) -> RecordedCall:
    """The call with copies of its tensors, outside of any graph of gradients."""
    with torch.inference_mode(False), torch.no_grad():
        leaves = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in call.leaves]
    args, kwargs = pytree.tree_unflatten(leaves, call.structure)
    return RecordedCall(args, kwargs, call.names, tuple(leaves), call.structure, call.number)


def same_kind(left: Any, right: Any) -> bool:
    """Whether two leaves can be the same input: tensors of one dtype and rank, or equal values."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return (left.dtype, left.dim(), left.layout) == (right.dtype, right.dim(), right.layout)
    return same_value(left, right)


def same_value(left: Any, right: Any) -> bool:
    """Whether two leaves that are no tensors are equal."""
    if left is right:
        return True
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        return False
    try:
        return type(left) is type(right) and bool(left == right)
    except Exception:  # an object of the user's that cannot be compared
        return False


def described(leaf: Any) -> str:
    """A leaf in messages: "a float32 tensor of 4 dimensions", "True"."""
    if isinstance(leaf, torch.Tensor):
        dtype = str(leaf.dtype).removeprefix("torch.")
        return f"a {dtype} tensor of {leaf.dim()} dimension{'' if leaf.dim() == 1 else 's'}"
    text = repr(leaf)
    return text if len(text) <= 40 else f"{text[:36]} ..."


def _is_default(value: Any, default: Any) -> bool:
    return default is not inspect.Parameter.empty and same_value(value, default)


def numbers(calls: Sequence[int]) -> str:
    """ "call 3", "calls 1, 2, 5 and 7 more" """
    shown = ", ".join(map(str, calls[:3]))
    more = f" and {len(calls) - 3} more" if len(calls) > 3 else ""
    return f"call{'' if len(calls) == 1 else 's'} {shown}{more}"
