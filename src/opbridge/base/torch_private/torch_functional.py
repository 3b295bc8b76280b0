"""Private interfaces of torch's functionalisation, which turns writes and views into values.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.utils import _pytree as pytree

from opbridge.base.attributes import replacing
from opbridge.base.torch_private.torch_proxies import Disabled

__all__ = ["functionalized"]


def functionalized(function: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
    """Calls a function on tensors, whose operators are functional below: neither writes nor views of what is written.

    Args:
        function: Returns tensors and numbers, in containers.
        values: Its arguments.

    Returns:
        The leaves of what it returns.
    """
    with replacing((FunctionalTensor, "__new__", _wrapped)), FunctionalTensorMode(pre_dispatch=True, export=True):
        given = [FunctionalTensor.to_functional(each) if isinstance(each, torch.Tensor) else each for each in values]
        returned = pytree.tree_leaves(function(*given))
        return [_plain(each) if isinstance(each, FunctionalTensor) else each for each in returned]


_NEW = FunctionalTensor.__new__


def _wrapped(cls: Any, tensor: torch.Tensor, mode: Any) -> Any:
    """What torch wraps a tensor in; the memory that it computes for that is no arithmetic of the model's sizes."""
    with Disabled():
        return _NEW(cls, tensor, mode)


def _plain(tensor: FunctionalTensor) -> torch.Tensor:
    torch._sync(tensor)
    return torch._from_functional_tensor(tensor.elem)
