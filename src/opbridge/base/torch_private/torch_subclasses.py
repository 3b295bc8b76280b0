"""Private interfaces of torch's wrapper subclasses: tensors that are made of other tensors, such as quantised ones.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = ["dispatch", "is_wrapper", "rebuilt", "wrapped_tensors", "wrapper_among"]


def is_wrapper(value: Any) -> bool:
    """Whether a value is a tensor that is made of others, and says how."""
    return isinstance(value, torch.Tensor) and bool(is_traceable_wrapper_subclass(value))


def wrapped_tensors(wrapper: Any) -> dict[str, torch.Tensor]:
    """The tensors that a wrapper is made of, by the names of its attributes."""
    names, _ = wrapper.__tensor_flatten__()
    return {name: getattr(wrapper, name) for name in names}


def rebuilt(wrapper: Any, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The same wrapper around other tensors of the same shapes."""
    _, context = wrapper.__tensor_flatten__()
    return type(wrapper).__tensor_unflatten__(dict(tensors), context, wrapper.size(), wrapper.stride())


def wrapper_among(values: Any) -> Any:
    """The first wrapper among the arguments of an operator, or None."""
    for value in values:
        if is_wrapper(value):
            return value
        if isinstance(value, (list, tuple)):
            found = wrapper_among(value)
            if found is not None:
                return found
    return None


def dispatch(wrapper: Any, function: Any, args: Any, kwargs: Any, below: Callable[[], Any]) -> Any:
    """What a wrapper makes of an operator, which it takes apart into operators on its tensors.

    Args:
        wrapper: One of the arguments.
        function: The operator.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        below: Called where the wrapper leaves the operator to others.
    """
    result = type(wrapper).__torch_dispatch__(function, (type(wrapper),), tuple(args), kwargs)
    return below() if result is NotImplemented else result
