"""Launches in a model that runs on the CPU, where no driver is: Triton's interpreter runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from opbridge.base import triton_private
from opbridge.base.torch_private import torch_proxies
from opbridge.kernels.triton.capturing import reason_not_to_fit
from opbridge.kernels.triton.launches import bound
from opbridge.kernels.triton.operators import run_source
from opbridge.kernels.triton.specialization import typed
from opbridge.kernels.triton.standalone import standalone_source

__all__ = ["running_on_cpu"]


@contextmanager
def running_on_cpu() -> Iterator[None]:
    """Within this context, kernels that are launched on tensors of the CPU run in Triton's interpreter."""
    with triton_private.intercepting_launches(_launched):
        yield


def _launched(
    as_before: Callable[[], Any], launched: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    if not tensors or any(each.device.type != "cpu" or isinstance(each, torch_proxies.FakeTensor) for each in tensors):
        return as_before()
    launch = bound(launched, grid, args, kwargs, reason_not_to_fit)
    call = typed(launch)
    numbers = {name: number for name, (_, number) in call.numbers.items()}
    ordered = {
        name: call.tensors.get(name, numbers.get(name)) for name, type_ in call.types.items() if type_ != "constexpr"
    }
    blocks = (*map(int, launch.grid), 1, 1)[:3]
    if all(blocks):
        run_source(standalone_source(launch.kernel, call.constants), launch.name, blocks, ordered, None)
    return None
