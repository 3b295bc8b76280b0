"""What torch's functions for normalisation layers ask about sizes, where data decide these.

Before the operator runs, `instance_norm` and `group_norm` compare the number of elements with 1 in Python, and raise an
error where it is 1. A size that data decide has no number there: that it is not 1 becomes a condition of the capture.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.base.attributes import replacing
from opbridge.base.torch_private import torch_sizes

__all__ = [
    "NORMALISING",
    "checking_normalised_sizes",
]

_CHECKS = {
    "_verify_batch_size": lambda size: (size[0], *size[2:]),
    "_verify_spatial_size": lambda size: tuple(size[2:]),
}
"""The functions that ask, each with the sizes whose product it compares with 1."""


@contextlib.contextmanager
def checking_normalised_sizes() -> Iterator[None]:
    """Within this context, these functions hold sizes that data decide to what they ask."""
    owner: Any = torch.nn.functional
    with replacing(*((owner, name, _checking(getattr(owner, name), of)) for name, of in _CHECKS.items())):
        yield


def _checking(original: Callable[..., None], of: Callable[[Sequence[Any]], tuple[Any, ...]]) -> Callable[..., None]:
    @functools.wraps(original)
    def check(size: Sequence[Any]) -> None:
        counted = of(size)
        if not any(map(torch_sizes.is_of_data, counted)):
            return original(size)
        count = functools.reduce(lambda one, other: one * other, counted, 1)
        torch._check(count != 1, lambda: f"Expected more than 1 element to normalise over, got input size {size}")
        return None

    return check


def _is_instance_norm_of_data(
    x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: Any, *settings: Any
) -> bool:
    """Over sizes that data decide, about which torch's own function asks; without statistics that it would write."""
    is_written = use_input_stats is True and (mean is not None or var is not None)
    return x.dim() > 2 and not is_written and _is_normalised_over_data(x, weight, bias, mean, var)


def _is_group_norm_of_data(x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, *settings: Any) -> bool:
    """The same, of groups of channels."""
    return _is_normalised_over_data(x, weight, bias) and groups > 0 and x.shape[1] % groups == 0


def _is_normalised_over_data(x: torch.Tensor, *of_channels: Any) -> bool:
    """Whether data decide a size of a tensor whose number of channels is known, as the weights have it."""
    return (
        x.dim() > 1
        and type(x.shape[1]) is int
        and x.dtype.is_floating_point
        and any(map(torch_sizes.is_of_data, x.shape))
        and all(each is None or (each.dtype == x.dtype and tuple(each.shape) == (x.shape[1],)) for each in of_channels)
    )


def _is_batch_norm_of_data(x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, *settings: Any) -> bool:
    """The same, of a batch whose own statistics are taken."""
    return len(settings) > 0 and settings[0] is True and _is_normalised_over_data(x, weight, bias, mean, var)


def _normalised(x: torch.Tensor, *settings: Any) -> torch.Tensor:
    """What such an operator gives for a tensor without values."""
    return x.new_empty(x.shape)


def _normalised_in_groups(x: torch.Tensor, *settings: Any) -> torch.Tensor:
    """The same, where no element to normalise over is an error."""
    for size in x.shape[2:]:
        torch._check(size > 0, lambda: f"Expected sizes greater than 0 to normalise over, but got {tuple(x.shape)}")
    return x.new_empty(x.shape)


NORMALISING: dict[Any, tuple[Callable[..., bool], Callable[..., Any]]] = {
    torch.ops.aten.instance_norm.default: (_is_instance_norm_of_data, _normalised),
    torch.ops.aten.batch_norm.default: (_is_batch_norm_of_data, _normalised),
    torch.ops.aten.group_norm.default: (_is_group_norm_of_data, _normalised_in_groups),
}
"""The shape functions of these operators: whether one is for some arguments, and what it gives."""
