"""The parameters, buffers and other tensors of a module, and their replacement while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.base.torch_private import torch_subclasses

__all__ = ["constant_names", "parts_of", "replaced", "state_of"]


def state_of(module: torch.nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    """The parameters and then the buffers of a module, each once, as (kind, name, tensor)."""
    for name, parameter in module.named_parameters():
        yield "parameter", name, parameter
    for name, buffer in module.named_buffers():
        yield "buffer", name, buffer


def parts_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that a tensor is made of: itself, or those of a wrapper."""
    if not torch_subclasses.is_wrapper(tensor):
        yield tensor
        return
    for part in torch_subclasses.wrapped_tensors(tensor).values():
        yield from parts_of(part)


def constant_names(module: torch.nn.Module) -> dict[int, str]:
    """The names of the tensors in plain attributes, by identity."""
    return {
        id(value): f"{path}.{name}" if path else name
        for path, each in module.named_modules()
        for name, value in vars(each).items()
        if isinstance(value, torch.Tensor)
    }


@contextlib.contextmanager
def replaced(module: torch.nn.Module, replacement: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Within this context, other tensors stand in the place of a module's parameters and buffers."""
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for each in module.modules():
        if not isinstance(each, torch.jit.ScriptModule):
            tables += [(table, dict(table)) for table in (each._parameters, each._buffers) if table]
    for table, saved in tables:
        table.update({name: replacement(tensor) for name, tensor in saved.items() if tensor is not None})
    try:
        yield
    finally:
        for table, saved in tables:
            table.clear()
            table.update(saved)
