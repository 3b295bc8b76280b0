"""The parameters, buffers and other tensors of a module, and the shapes it keeps; their replacement while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.base.torch_private import torch_subclasses

__all__ = ["constant_names", "parts_of", "replaced", "shapes_of_earlier_runs", "state_of"]


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


class _EarlierShape(tuple[int, ...]):
    """A shape that a module keeps from an earlier run; it is no shape with symbolic sizes."""

    def __eq__(self, other: object) -> bool:
        return not _is_symbolic(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return _is_symbolic(other) or tuple.__ne__(self, other)

    __hash__ = tuple.__hash__


def _is_symbolic(shape: object) -> bool:
    return isinstance(shape, tuple) and any(isinstance(size, torch.SymInt) for size in shape)


@contextlib.contextmanager
def shapes_of_earlier_runs(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, shapes that a module keeps differ from shapes with symbolic sizes.

    A module keeps the shape of its last input to see whether what it computed from it still holds (`self.shape !=
    x.shape`). The example has that shape again; other sizes do not.
    """
    kept = [
        (each, name, value)
        for each in module.modules()
        for name, value in vars(each).items()
        if type(value) is torch.Size
    ]
    for each, name, value in kept:
        vars(each)[name] = _EarlierShape(value)
    try:
        yield
    finally:
        for each, name, value in kept:
            vars(each)[name] = value
