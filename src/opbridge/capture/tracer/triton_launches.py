"""Launches of Triton kernels while a model is captured: each becomes an operator; see `opbridge.kernels.triton`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from opbridge.base import triton_private
from opbridge.base.torch_private import torch_library

__all__ = ["body_of", "has_launches", "recording_launches"]

_aten = torch.ops.aten

_EMPTY = frozenset(
    {
        _aten.empty.memory_format,
        _aten.empty_like.default,
        _aten.empty_permuted.default,
        _aten.empty_strided.default,
        _aten.new_empty.default,
        _aten.new_empty_strided.default,
    }
)

_ASKING = frozenset({_aten.sym_size.int, _aten.sym_stride.int, _aten.sym_numel.default})


def body_of(function: Any) -> Callable[..., Any] | None:
    """What an operator of `torch.library.triton_op` calls; None for other operators."""
    return torch_library.body_of_triton_op(function) if triton_private.is_loaded() else None


def has_launches(program: ExportedProgram) -> bool:
    """Whether a program of torch.export launches kernels: by torch's operator for it, or `torch.library.triton_op`."""
    modules = [each for each in program.graph_module.modules() if isinstance(each, GraphModule)]
    return triton_private.has_launches(node.target for module in modules for node in module.graph.nodes)


@contextmanager
def recording_launches(recorder: Callable[[], Any]) -> Iterator[None]:
    """Within this context, launches call operators.

    Args:
        recorder: Gives the recorder of the graph that is being made.
    """
    if not triton_private.is_loaded():
        yield
        return
    from opbridge.kernels.triton.capturing import call_operator

    def is_empty(tensor: torch.Tensor) -> bool:
        node: Node | None = recorder().node_of(tensor)
        return node is not None and node.target in _EMPTY and all(each.target in _ASKING for each in node.users)

    def replace(tensor: torch.Tensor, result: torch.Tensor) -> None:
        recorder().track(tensor, recorder().node_of(result))

    def launched(as_before: Any, kernel: Any, grid: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        call_operator(kernel, grid, args, kwargs, is_empty, replace)

    def launched_again(kernel: Any, grid: Any, arguments: dict[str, Any]) -> None:
        call_operator(kernel, grid, (), arguments, is_empty, replace)

    with triton_private.intercepting_launches(launched), triton_private.launching_again(launched_again):
        yield
