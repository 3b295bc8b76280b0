"""Copies of tensors that `contiguous` and `reshape` may not need, as sizes decide.

`x[:, :h].contiguous()` is the tensor itself where it is contiguous already, and torch asks sizes for it: whether `h` is
all there is, or 1. So it does for `x.transpose(0, 1).reshape(-1)`, which is a view where a size is 1. No operator of
ONNX knows of it. So a copy is taken in any case. It is the same unless the model writes to the copy, or to what it is a
copy of.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule

from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private import torch_sizes, torch_tracing
from opbridge.capture.tracer.writes import written_by
from opbridge.graph.values import tensors_in

__all__ = ["ContiguousCopies", "CopiesMatter", "Copying"]


class CopiesMatter(Exception):
    """The model writes to a tensor that may be the same as one of which a copy was taken."""


@dataclasses.dataclass
class Copying:
    """Whether the captures of a model take such copies: not once one has found that they matter."""

    is_on: bool = True


class ContiguousCopies:
    """The copies of one run.

    Args:
        copying: Whether there are any; turned off where they matter.
    """

    def __init__(self, copying: Copying) -> None:
        self._copying = copying
        self._taken: list[tuple[torch.Tensor, torch.Tensor]] = []

    def of(
        self, tensor: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format
    ) -> torch.Tensor | None:
        """What `contiguous` gives, where sizes decide whether it is a copy; None where that is known."""
        numbers = [each for each in (*tensor.shape, *tensor.stride()) if isinstance(each, torch.SymInt)]
        if not numbers or not self._copying.is_on:
            return None
        if not _is_of_data_and_out_of_order(tensor, memory_format):
            with paused(), contextlib.suppress(RuntimeError), torch_sizes.refusing_questions(numbers):
                tensor.is_contiguous(memory_format=memory_format)
                return None
        return self._copied(tensor, memory_format)

    def reshaped(self, function: Callable[..., torch.Tensor], tensor: torch.Tensor, *form: Any, **named: Any) -> Any:
        """What a function gives that reshapes a tensor, of a copy where sizes decide whether that is a view.

        None where it is known: the tensor has no dynamic sizes, or lies in memory in the order of its dimensions.
        """
        if tensor.layout != torch.strided or not self._copying.is_on:
            return None
        numbers = [each for each in (*tensor.shape, *tensor.stride()) if isinstance(each, torch.SymInt)]
        if not numbers or torch_sizes.is_in_order(tensor):
            return None
        with contextlib.suppress(RuntimeError), torch_sizes.refusing_questions(numbers):
            return function(tensor, *form, **named)
        return function(self._copied(tensor), *form, **named)

    def _copied(
        self, tensor: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format
    ) -> torch.Tensor:
        copy = tensor.clone(memory_format=memory_format)
        self._taken.append((tensor, copy))
        return copy

    def check(self, module: GraphModule) -> None:
        """Checks that what the model does is the same with copies.

        Args:
            module: The graph of the run.

        Raises:
            CopiesMatter: They may not be.
        """
        if self._taken and self._are_written(module):
            self._copying.is_on = False
            raise CopiesMatter

    def _are_written(self, module: GraphModule) -> bool:
        """Whether the model writes to a copy, or, once it is taken, to what it is a copy of."""
        bodies = [body for body in module.modules() if isinstance(body, GraphModule) and body is not module]
        if any(written_by(node) for body in bodies for node in body.graph.nodes):
            return True
        key = torch_tracing.storage_key
        sources = {key(copy): key(tensor) for tensor, copy in self._taken}
        shared: set[int] = set()
        for node in module.graph.nodes:
            if any(key(each) in shared for target in written_by(node) for each in tensors_in(target.meta["val"])):
                return True
            for each in tensors_in(node.meta.get("val")):
                if key(each) in sources:
                    shared |= {key(each), sources[key(each)]}
        return False


def _is_of_data_and_out_of_order(tensor: torch.Tensor, memory_format: torch.memory_format) -> bool:
    """Whether a copy is taken without asking: of sizes that data decide, torch asks at length, and mostly in vain."""
    is_plain = memory_format is torch.contiguous_format and tensor.layout == torch.strided
    return is_plain and any(map(torch_sizes.is_of_data, tensor.shape)) and not torch_sizes.is_in_order(tensor)
