"""What a database of samples is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["Entry", "Sample"]


@dataclass(frozen=True)
class Sample:
    """One call of an operator: its arguments, by position and by name; tensors may stand in lists and tuples."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One operator, or one way to call it.

    Attributes:
        operator: Its name, as "nn.functional.gelu" or "torchvision::nms".
        function: What calls it.
        samples: Makes its samples in a dtype, always the same ones from the same seed, one after the other.
        dtypes: Those that it takes on a CPU.
        variant: Which of several entries of the operator this is; "" where there is one.
        undefined: Why its values mean nothing, as those of torch.empty; only shape and dtype are compared then.
        any_order: Whether PyTorch leaves open which of several equal elements its int64 results point to, unless it is
            called with stable=True.
    """

    operator: str
    function: Callable[..., Any]
    samples: Callable[[torch.dtype], Iterable[Sample]]
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    variant: str = ""
    undefined: str = ""
    any_order: bool = False
